package clienttest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

// What docs/clients.md says of a field.
const (
	taken   = "taken over"
	ignored = "ignored"
	refused = "refused"
)

// Decisions are by field.
type Decisions map[string]string

var fieldName = regexp.MustCompile("`([A-Z]\\w*)`")

// ReadDecisions reads the tables under a heading of docs/clients.md.
func ReadDecisions(t *testing.T, heading string) Decisions {
	t.Helper()
	_, section, _ := strings.Cut(testkit.Read(t, "../../docs/clients.md"), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := Decisions{}
	for line := range strings.Lines(section) {
		cells := strings.SplitN(line, "|", 4)
		if len(cells) < 4 || !slices.Contains([]string{taken, ignored, refused}, strings.TrimSpace(cells[1])) {
			continue
		}
		for _, found := range fieldName.FindAllStringSubmatch(cells[2], -1) {
			testkit.Check(t, all[found[1]] == "", "docs/clients.md decides on %s twice", found[1])
			all[found[1]] = strings.TrimSpace(cells[1])
		}
	}
	return all
}

// Check tests that each exported field of the options has a decision, and that open ignores or refuses
// what it says it does. A field is set in fresh options, to a value of those given, or to any.
func Check[O any](
	t *testing.T, all Decisions, fresh func() *O, values map[string]any, open func(*O) (*node.Node, error),
) {
	t.Helper()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[O]()) {
		if !field.IsExported() {
			continue
		}
		options := fresh()
		v := reflect.ValueOf(options).Elem().FieldByIndex(field.Index)
		if value := values[field.Name]; value != nil {
			v.Set(reflect.ValueOf(value))
		} else if err := fill(v); err != nil {
			t.Errorf("%s: %v", field.Name, err)
			continue
		}
		n, err := open(options)
		switch all[field.Name] {
		case taken: // see CheckTaken
		case ignored:
			testkit.Check(t, err == nil, "%s is not ignored: %v", field.Name, err)
		case refused:
			if !errors.Is(err, node.ErrInvalid) || n != nil || !strings.Contains(err.Error(), ": "+field.Name+": ") ||
				!strings.Contains(err.Error(), "/docs/clients.md#what-is-refused") {
				t.Errorf("%s is not refused: %v", field.Name, err)
			}
		default:
			t.Errorf("docs/clients.md does not say what becomes of %s", field.Name)
		}
		if n != nil {
			testkit.Must(t, n.Close())
		}
	}
}

// CheckTaken tests that the fields which are taken over are those that these options set. They are
// what the Openers of Run make of [Full].
func CheckTaken(t *testing.T, all Decisions, options ...any) {
	t.Helper()
	isSet := map[string]bool{}
	for _, o := range options {
		v := reflect.Indirect(reflect.ValueOf(o))
		for i := range v.NumField() {
			isSet[v.Type().Field(i).Name] = isSet[v.Type().Field(i).Name] || !v.Field(i).IsZero()
		}
	}
	for field, decision := range all {
		if set, isField := isSet[field]; !isField {
			t.Errorf("docs/clients.md decides on %s, which is no field", field)
		} else if set != (decision == taken) {
			t.Errorf("docs/clients.md says of %s: %s; the tests of connections set it: %v", field, decision, set)
		}
	}
}

// Full returns settings none of which is zero.
func Full() Settings {
	return Settings{
		Addr: "lock-a.internal:7000", User: "app", Password: "secret", DB: 1, Name: "billing", TLS: &tls.Config{},
		Timeout: time.Second,

		Ask:  func(context.Context) (user, password string, err error) { return "", "", nil },
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported },
	}
}

// fill sets a value to one that is not zero.
func fill(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { panic("not to be called") }))
	case reflect.Struct:
		return fill(v.Field(0))
	default:
		return errors.New("the test must give a value of type " + v.Type().String())
	}
	return nil
}
