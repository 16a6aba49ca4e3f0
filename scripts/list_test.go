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

// With and Without make new lists: a client's list may be in use elsewhere.
func TestWithAndWithout(t *testing.T) {
	l := scripts.NewList("a", "c")
	for want, got := range map[string]*scripts.List{
		"{a, b, c}": l.With("b"),
		"{a, c, d}": l.With("d"),
		"{a}":       l.Without("c"),
		"{c}":       l.Without("a"),
		"{a, c}":    l.Without("b"),
		"{}":        l.Without("a").Without("c"),
	} {
		if got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	more := l.With("d")
	more.With("e")
	more.Without("a")
	if l.String() != "{a, c}" || more.String() != "{a, c, d}" || !more.Without("d").Equal(l) || !l.With("d").Equal(more) {
		t.Errorf("the lists are %v and %v", l, more)
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
			if !l.Equal(m) || !l.HasAll(m) || process.Expected(l) != process.Expected(m) {
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

func TestHasAll(t *testing.T) {
	three := scripts.NewList("a", "b", "c")
	for _, c := range []struct {
		of   *scripts.List
		want bool
	}{
		{scripts.NewList(), true}, {scripts.NewList("b"), true}, {scripts.NewList("a", "c"), true}, {three, true},
		{scripts.NewList("a", "b", "c", "d"), false}, {scripts.NewList("d"), false}, {scripts.NewList("a", "d"), false},
	} {
		if three.HasAll(c.of) != c.want {
			t.Errorf("%v has all of %v: %v", three, c.of, !c.want)
		}
	}
	if scripts.NewList().HasAll(three) {
		t.Error("an empty list has all of them")
	}
}
