package scripts_test

import (
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/scripts"
)

func TestAListHasItsNamesInOrder(t *testing.T) {
	given := []string{"c", "a", "b"}
	l := scripts.NewList(given...)
	if !slices.Equal(l.Names(), []string{"a", "b", "c"}) || l.Len() != 3 || l.String() != "{a, b, c}" {
		t.Errorf("%v has %d names: %q", l, l.Len(), l.Names())
	}
	if !slices.Equal(given, []string{"c", "a", "b"}) {
		t.Errorf("NewList sorted its argument: %q", given)
	}
	given[1] = "x"
	for name, want := range map[string]bool{"a": true, "b": true, "c": true, "": false, "x": false, "ab": false, "A": false} {
		if l.Has(name) != want {
			t.Errorf("%v has %q: %v", l, name, !want)
		}
	}
	if none := scripts.NewList(); none.Len() != 0 || none.Has("") || none.String() != "{}" {
		t.Errorf("the empty list is %v", none)
	}
}

// Two lists are equal when they have the same names. No names look like two.
func TestEqualLists(t *testing.T) {
	same := [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}}
	others := [][]string{{}, {"a"}, {"a", "b"}, {"a", "b", "d"}, {"a", "b", "c", "d"}, {"a,b", "c"}, {"a", "b,c"}, {"a,b,c"}, {"a%2Cb", "c"}, {"A", "b", "c"},
		{"a", "b", "c "}, {"a\nb", "c"}, {"a%0Ab", "c"}}
	for _, a := range same {
		l := scripts.NewList(a...)
		for _, b := range same {
			m := scripts.NewList(b...)
			if !l.Equal(m) || process.Expected(l) != process.Expected(m) {
				t.Errorf("%q and %q differ", a, b)
			}
		}
		for _, b := range others {
			if m := scripts.NewList(b...); l.Equal(m) || m.Equal(l) || process.Expected(l) == process.Expected(m) {
				t.Errorf("%q and %q are equal", a, b)
			}
		}
	}
	for i, a := range others {
		for j, b := range others {
			if l, m := scripts.NewList(a...), scripts.NewList(b...); l.Equal(m) != (i == j) {
				t.Errorf("%q and %q are equal: %v", a, b, l.Equal(m))
			}
		}
	}
}
