package membership_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/scripts"
)

// With and Without make new lists: a client's list may be in use elsewhere.
func TestWithAndWithout(t *testing.T) {
	l := scripts.NewList("a", "c")
	for want, got := range map[string]*scripts.List{
		"{a, b, c}": change.With(l, "b"),
		"{a, c, d}": change.With(l, "d"),
		"{a}":       change.Without(l, "c"),
		"{c}":       change.Without(l, "a"),
		"{a, c}":    change.Without(l, "b"),
		"{}":        change.Without(change.Without(l, "a"), "c"),
	} {
		if got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	more := change.With(l, "d")
	change.With(more, "e")
	change.Without(more, "a")
	if l.String() != "{a, c}" || more.String() != "{a, c, d}" || !change.Without(more, "d").Equal(l) || !change.With(l, "d").Equal(more) {
		t.Errorf("the lists are %v and %v", l, more)
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
		if change.HasAll(three, c.of) != c.want {
			t.Errorf("%v has all of %v: %v", three, c.of, !c.want)
		}
	}
	if change.HasAll(scripts.NewList(), three) {
		t.Error("an empty list has all of them")
	}
}
