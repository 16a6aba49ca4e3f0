package lease

import (
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// settable returns the field of an addressable struct, exported or not.
func settable(of reflect.Value, field string) reflect.Value {
	v := of.FieldByName(field)
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// sample is a lease whose future depends on every field, with its fields and its first vote's.
func sample() (l *Lease, fields, vote reflect.Value) {
	l = new(Lease)
	l.Init(&Terms{Quorum: quorate.Majority(3), Lease: time.Second, MaxHold: time.Hour}, make([]Vote, 3))
	l.votes[0].until = start
	for _, at := range []*clock.Instant{&l.begunAt, &l.renewedAt, &l.deadline, &l.maxHoldEnd, &l.next} {
		*at = start
	}
	return l, reflect.ValueOf(l).Elem(), reflect.ValueOf(&l.votes[0]).Elem()
}

// Searches take two leases for the same one if their keys are the same, and let time pass by Age. A new field must be
// in both, or here among the fields that decide nothing.
func TestSearchesKnowEachField(t *testing.T) {
	key := func(l *Lease) string {
		b := l.AppendKey(nil, start, time.Hour, true)
		return string(l.AppendVote(b, 0, start, true, func(process string) byte { return byte(len(process)) }))
	}
	decideNothing := []string{
		"terms", // they do not change
		"votes", // of which there are keys of their own
		"early", "writeBacks",
	}
	base, _, _ := sample()
	check := func(of func() (*Lease, reflect.Value), where string) {
		_, fields := of()
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			if slices.Contains(decideNothing, name) {
				continue
			}
			l, fields := of()
			v := settable(fields, name)
			if v.Type() == reflect.TypeFor[clock.Instant]() {
				if l.Age(time.Minute); v.Interface() != start.Add(-time.Minute) {
					t.Errorf("%v.%s does not age: see Age in export_test.go", fields.Type(), name)
				}
				l, fields = of()
				v = settable(fields, name)
			}
			switch {
			case v.CanInt():
				v.SetInt(v.Int() + 1)
			case v.CanUint():
				v.SetUint(v.Uint() + 1)
			case v.Kind() == reflect.String:
				v.SetString("another")
			case v.Kind() == reflect.Bool:
				v.SetBool(true)
			}
			testkit.Check(t, key(l) != key(base), "%v.%s is not in the key: see %s in export_test.go", fields.Type(), name, where)
		}
	}
	check(func() (*Lease, reflect.Value) { l, fields, _ := sample(); return l, fields }, "AppendKey")
	check(func() (*Lease, reflect.Value) { l, _, vote := sample(); return l, vote }, "AppendVote")
}

// The terms are not part of the key, but they decide when the lease's beginning no longer matters.
func TestSearchesKnowEachTerm(t *testing.T) {
	known := []string{"Quorum", "Lease", "Drift", "Fixed", "MaxHold", "MinHold", "StopBefore", "Mode"}
	terms := reflect.TypeFor[Terms]()
	for i := range terms.NumField() {
		if name := terms.Field(i).Name; !slices.Contains(known, name) {
			t.Errorf("the term %s is new: name it in AppendKey (export_test.go) if it counts from begunAt, and in the setups of "+
				"quorum/internal/lease if it decides on a grant; then name it here", name)
		}
	}
}
