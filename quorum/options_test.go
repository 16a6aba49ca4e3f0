package quorum

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// notOfALock has the terms that do not make another lock.
var notOfALock = []string{"Quorum", "Mode", "Millis", "Events"} // nodes', a reader's, the lease again, hooks'

// A lock that was acquired with other terms is another lock: differences names each of them.
func TestEachTermMakesAnotherLock(t *testing.T) {
	base := defaults()
	for _, terms := range []reflect.Type{reflect.TypeFor[lease.Terms](), reflect.TypeFor[engine.Terms]()} {
		for i := range terms.NumField() {
			field := terms.Field(i)
			if field.Anonymous || slices.Contains(notOfALock, field.Name) {
				continue
			}
			other := base
			switch v := reflect.ValueOf(&other.terms).Elem().FieldByName(field.Name); v.Kind() {
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.Int64:
				v.SetInt(v.Int() + int64(time.Second))
			case reflect.Float64:
				v.SetFloat(v.Float() / 2)
			}
			if base.differences(&other) == "" {
				t.Errorf("settings that differ in %v.%s make one lock: see differences in options.go, check there, Lock's comment, and notOfALock here",
					terms, field.Name)
			}
		}
	}
}

// A setting that nobody has thought of is kept by With, and accepted whatever it is.
func TestEachSettingIsKnown(t *testing.T) {
	known := []string{"Settings", "terms", "wait", "retry", "logger", "hooks", "nodeOpts", "nodeOptsSet", "exists", "newOnly",
		"label", "loggerSet", "minHoldSet", "leaseSet", "Min", "Max"}
	for _, field := range append(reflect.VisibleFields(reflect.TypeFor[settings]()), reflect.VisibleFields(reflect.TypeFor[waiting.Retry]())...) {
		if len(field.Index) == 1 && !slices.Contains(known, field.Name) {
			t.Errorf("the setting %s is new: see defaults and check in options.go, newOnly and With in open.go and docs/usage.md#options if it is "+
				"of a new Locker alone, retryBounds in package waiting if it is of a retry, testdata/refused.txt; then "+
				"name it here", field.Name)
		}
	}
}
