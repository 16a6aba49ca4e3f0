package membership_test

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// A list with the names in other spellings is another list, which no client writes: the error says how to name masters.
func TestAListInAnotherSpelling(t *testing.T) {
	list, spelled := scripts.NewList("10.0.0.1:6379", "redis-b:6379"), scripts.NewList("10.0.0.1:6379", "Redis-B.:6379")
	of := scripts.Process{Run: "run", MaxLease: maxLease, Member: list.Names()[0]}
	m := scripts.Marker{Process: of, Generation: 1, Members: spelled, Next: scripts.NewList()}
	v := membership.Read(scripts.LookReply{Marker: m.String(), Process: of}, 0)
	testkit.Equal(t, v.Relation(list), membership.Refuses, "the relation")
	testkit.Check(t, strings.HasSuffix(v.Refusal(list).Error(), "give every client the same names: ?name=... in the URL, or node.WithName"), "%v", v.Refusal(list))
}

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
		testkit.Equal(t, got.String(), want, "as text")
	}
	more := change.With(l, "d")
	change.With(more, "e")
	change.Without(more, "a")
	testkit.Check(t, l.String() == "{a, c}" && more.String() == "{a, c, d}" && change.Without(more, "d").Equal(l) &&
		change.With(l, "d").Equal(more), "the lists are %v and %v", l, more)
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
		testkit.Equal(t, change.HasAll(three, c.of), c.want, c.of)
	}
	testkit.Check(t, !change.HasAll(scripts.NewList(), three), "an empty list has all of them")
}
