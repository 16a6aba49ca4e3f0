package membership_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// Names that are spelled otherwise are the same names. A list that has a name twice is nobody's.
func TestStandingOfOtherSpellings(t *testing.T) {
	list := scripts.NewList("10.0.0.1:6379", "redis-b.:6379", "redis-c.example:6379/1")
	spelled := scripts.NewList("[::ffff:10.0.0.1]:06379", "Redis-B.:6379", "REDIS-C.example.:6379/1")
	four := scripts.NewList(append([]string{"D.:1"}, spelled.Names()...)...)
	twice := scripts.NewList("10.0.0.1:6379", "Redis-B.:6379", "redis-b.:6379")
	none := scripts.NewList()
	look := func(members, next *scripts.List) *membership.View {
		of := scripts.Process{Run: "run", MaxLease: maxLease, Member: list.Names()[0]}
		m := scripts.Marker{Process: of, Generation: 1, Members: members, Next: next}
		m.Member = "[::ffff:10.0.0.1]:06379"
		return membership.Read(scripts.Seen{Marker: m.String(), Process: of}, 0)
	}
	for what, c := range map[string]struct {
		view *membership.View
		want membership.Relation
	}{
		"the members":         {look(spelled, none), membership.Accepts},
		"before a change":     {look(spelled, four), membership.Accepts},
		"after a change":      {look(four, spelled), membership.Accepts},
		"another list":        {look(four, none), membership.Refuses},
		"a name twice":        {look(twice, none), membership.Refuses},
		"a name twice, next":  {look(four, twice), membership.Refuses},
		"in its own spelling": {look(list, none), membership.Accepts},
	} {
		testkit.Equal(t, c.view.Relation(list), c.want, what)
	}
	testkit.Check(t, look(twice, none).Relation(scripts.NewList("10.0.0.1:6379", "redis-b.:6379")) == membership.Refuses,
		"a list that has a name twice is taken for one that has it once")
	for _, v := range []*membership.View{look(twice, none), look(four, twice)} {
		err := v.Refusal(list)
		testkit.Check(t, strings.HasSuffix(err.Error(), ". The list has redis-b.:6379 twice, in two spellings: quorumlock admit -members gives this master another"), "%v", err)
	}
}

// A marker of another database, which SWAPDB has brought, says nothing of this one: its list keeps nobody from founding here.
func TestAMarkerOfAnotherDatabase(t *testing.T) {
	here, there := scripts.Process{Run: "run/1", Member: "a:6379/1"}, scripts.Process{Run: "run/2", Member: "a:6379/2"}
	m := scripts.Marker{Process: there, Generation: 1, Members: scripts.NewList(there.Member), Next: scripts.NewList()}
	for process, isForgotten := range map[scripts.Process]bool{here: true, there: false} {
		v := membership.Read(scripts.Seen{Marker: m.String(), Process: process}, 0)
		testkit.Check(t, (v.Marker().Members.Len() == 0) == isForgotten && v.HadAnother(scripts.NewList(here.Member)) != isForgotten,
			"%s has the list %v", process.Run, v.Marker().Members)
	}
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

// A change is by one member, and leaves two.
func TestNew(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"abc", "abcd", "<nil>"}, {"abc", "ab", "<nil>"},
		{"ab", "a", "a change to fewer than two masters is not safe"},
		{"abc", "abc", "do not differ by one member"}, {"abc", "abcde", "do not differ by one member"},
		{"abcde", "abc", "do not differ by one member"},
		{"abc", "abde", "do not differ by one member"}, {"abc", "ad", "do not differ by one member"},
	} {
		_, err := change.New(listOf(c.from), listOf(c.to))
		testkit.Check(t, strings.Contains(fmt.Sprint(err), c.want), "from %s to %s: %v", c.from, c.to, err)
	}
}

// A command may pause as often as it must: only looks without a pause are bounded.
func TestPausesAreNotBounded(t *testing.T) {
	by, err := change.New(listOf("abc"), listOf("ab"))
	testkit.Must(t, err)
	by.Waits = time.Minute
	p, views := by.Announce(), map[string]*membership.View{}
	for _, name := range by.From.Names() {
		of := scripts.Process{Run: "run", MaxLease: maxLease, Member: name}
		m := scripts.Marker{Process: of, Generation: 1, Members: by.From, Next: scripts.NewList(), Change: time.Second}
		views[name] = membership.Read(scripts.Seen{Marker: m.String(), Process: of}, 0)
	}
	for range 30 {
		testkit.Equal(t, p.Next().Do, change.Look, "after a pause")
		p.Looked(views)
		p.Paused()
	}
}
