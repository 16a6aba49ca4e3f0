package membership_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// ofA is the process of the member a.
var ofA = scripts.Process{Run: "run-a", MaxLease: maxLease, Member: "a"}

// view returns the view of the member a with a marker of its own, changed as the test wants it.
func view(change func(*scripts.Marker)) *membership.View {
	m := scripts.Marker{Process: ofA, Generation: 7, Members: abc, Next: none}
	change(&m)
	return viewOf(m.String())
}

func viewOf(text string) *membership.View {
	return membership.Read(scripts.LookReply{Marker: text, Now: start, Process: ofA}, 0)
}

func TestRelation(t *testing.T) {
	for what, c := range map[string]struct {
		view *membership.View
		want membership.Relation
	}{
		"no marker":                    {viewOf(""), membership.Blank},
		"a text that is no marker":     {viewOf("text"), membership.Blank},
		"another process's":            {view(func(m *scripts.Marker) { m.Run = "another" }), membership.Blank},
		"another process's, all other": {view(func(m *scripts.Marker) { m.Run, m.Members, m.Member, m.MaxLease = "x", abd, "d", 1 }), membership.Blank},
		"admitted by an operator":      {view(func(m *scripts.Marker) { m.Members = none }), membership.Blank},
		"the list":                     {view(marked), membership.Accepts},
		"in quarantine":                {view(func(m *scripts.Marker) { m.Admitted = start + time.Hour }), membership.Accepts},
		"the list before a change":     {view(func(m *scripts.Marker) { m.Next = abcd }), membership.Accepts},
		"the list after a change":      {view(func(m *scripts.Marker) { m.Members, m.Next = abcd, abc }), membership.Accepts},
		"claimed":                      {view(func(m *scripts.Marker) { m.Claimed = true }), membership.Claimed},
		"claimed, the next":            {view(func(m *scripts.Marker) { m.Claimed, m.Members, m.Next = true, abcd, abc }), membership.Claimed},
		"another list":                 {view(func(m *scripts.Marker) { m.Members = abd }), membership.Refuses},
		"other lists":                  {view(func(m *scripts.Marker) { m.Members, m.Next = abd, abcd }), membership.Refuses},
		"claimed for another":          {view(func(m *scripts.Marker) { m.Members, m.Claimed = abd, true }), membership.Refuses},
		"another max lease":            {view(func(m *scripts.Marker) { m.MaxLease = time.Second }), membership.Refuses},
		"another number of replicas":   {view(func(m *scripts.Marker) { m.Run = "run-a.h.1" }), membership.Refuses},
		"another process with it":      {view(func(m *scripts.Marker) { m.Run = "x.h.1" }), membership.Refuses},
		"a run with other dots":        {view(func(m *scripts.Marker) { m.Run = "x.y" }), membership.Blank},
		"another member":               {view(func(m *scripts.Marker) { m.Member = "b" }), membership.Refuses},
		"admitted, another max lease":  {view(func(m *scripts.Marker) { m.Members, m.MaxLease = none, time.Second }), membership.Refuses},
		"admitted by another name":     {view(func(m *scripts.Marker) { m.Members, m.Member = none, "x" }), membership.Blank},
	} {
		testkit.Equal(t, c.view.Relation(abc), c.want, what)
	}
}

// Names that are spelled otherwise are the same names. A list that has a name twice is nobody's.
func TestStandingOfOtherSpellings(t *testing.T) {
	list := scripts.NewList("10.0.0.1:6379", "redis-b.:6379", "redis-c.example:6379/1")
	spelled := scripts.NewList("[::ffff:10.0.0.1]:06379", "Redis-B.:6379", "REDIS-C.example.:6379/1")
	four := scripts.NewList(append([]string{"D.:1"}, spelled.Names()...)...)
	twice := scripts.NewList("10.0.0.1:6379", "Redis-B.:6379", "redis-b.:6379")
	look := func(members, next *scripts.List) *membership.View {
		of := scripts.Process{Run: "run", MaxLease: maxLease, Member: list.Names()[0]}
		m := scripts.Marker{Process: of, Generation: 1, Members: members, Next: next}
		m.Member = "[::ffff:10.0.0.1]:06379"
		return membership.Read(scripts.LookReply{Marker: m.String(), Now: start, Process: of}, 0)
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

// The sentences have both lists, and what to do if the same masters may have other names.
func TestRefusals(t *testing.T) {
	const changed = ". The list was changed: give this client the new one, or, if it has that already, announce it first (quorumlock members)"
	const hint = ". If these are the same masters by other addresses, give every client the same names: ?name=... in the URL, or node.WithName"
	for what, c := range map[string]struct {
		change func(*scripts.Marker)
		wraps  error
		want   string
	}{
		"another max lease": {func(m *scripts.Marker) { m.MaxLease, m.Member, m.Members = time.Minute, "b", abd }, membership.ErrMaxLease,
			"max lease differs: the deployment's is 1m0s, this client's 30s"},
		"another member": {func(m *scripts.Marker) { m.Member, m.Members = "b", abd }, membership.ErrDiffers,
			"the lists of masters differ: this master is the member b of {a, b, d} (generation 7), and a to this client, whose list is {a, b, c}" + hint},
		"the same masters by other names: each says the same": {func(m *scripts.Marker) { m.Member, m.Members, m.Generation = "x", scripts.NewList("x", "y", "z"), 1 },
			membership.ErrDiffers,
			"the lists of masters differ: this master accepts clients with {x, y, z} (generation 1), this client's list is {a, b, c}" + hint},
		"another list as long": {func(m *scripts.Marker) { m.Members = abd }, membership.ErrDiffers,
			"the lists of masters differ: this master accepts clients with {a, b, d} (generation 7), this client's list is {a, b, c}" + changed + hint},
		"another list as long, never changed": {func(m *scripts.Marker) { m.Members, m.Generation = abd, 1 }, membership.ErrDiffers,
			"the lists of masters differ: this master accepts clients with {a, b, d} (generation 1), this client's list is {a, b, c}" + hint},
		"a longer list": {func(m *scripts.Marker) { m.Members = abcd }, membership.ErrDiffers,
			"the lists of masters differ: this master accepts clients with {a, b, c, d} (generation 7), this client's list is {a, b, c}" + changed},
		"a shorter list": {func(m *scripts.Marker) { m.Members = scripts.NewList("a") }, membership.ErrDiffers,
			"the lists of masters differ: this master accepts clients with {a} (generation 7), this client's list is {a, b, c}" + changed},
		"a change": {func(m *scripts.Marker) { m.Members, m.Next = abcd, five }, membership.ErrDiffers,
			"the lists of masters differ: this master accepts clients with {a, b, c, d} (generation 7), and {a, b, c, d, e} next, this client's list is {a, b, c}" + changed},
		"claimed": {func(m *scripts.Marker) { m.Members, m.Claimed = abcd, true }, membership.ErrDiffers,
			"the lists of masters differ: this master is being marked for clients with {a, b, c, d} (generation 7), this client's list is {a, b, c}"},
	} {
		v := view(c.change)
		if v.Relation(abc) != membership.Refuses {
			t.Fatalf("%s: it does not refuse", what)
		}
		err := v.Refusal(abc)
		testkit.Check(t, errors.Is(err, c.wraps) && err.Error() == c.want, "%s: %v\nwant %s", what, err, c.want)
	}
}

func TestWhatAViewSays(t *testing.T) {
	type says struct {
		isMarked, given      bool
		maxLease, quarantine time.Duration
		word                 time.Duration
	}
	for what, c := range map[string]struct {
		view *membership.View
		want says
	}{
		"nothing":     {viewOf(""), says{}},
		"no marker":   {viewOf("text"), says{}},
		"marked":      {view(marked), says{isMarked: true, maxLease: maxLease}},
		"quarantined": {view(func(m *scripts.Marker) { m.Admitted = start + 5*time.Second }), says{isMarked: true, maxLease: maxLease, quarantine: 5 * time.Second}},
		"no more":     {view(func(m *scripts.Marker) { m.Admitted = start - 5*time.Second }), says{isMarked: true, maxLease: maxLease}},
		"of another":  {view(func(m *scripts.Marker) { m.Run, m.Admitted, m.MaxLease = "x", start+1, time.Hour }), says{maxLease: time.Hour}},
		"admitted": {view(func(m *scripts.Marker) { m.Members, m.Admitted = none, start-5*time.Second }),
			says{isMarked: true, maxLease: maxLease, given: true, word: maxLease - 5*time.Second}},
		"admitted a max lease ago": {view(func(m *scripts.Marker) { m.Members, m.Admitted = none, start-maxLease }),
			says{isMarked: true, maxLease: maxLease, given: true}},
		"admitted too long ago": {view(func(m *scripts.Marker) { m.Members, m.Admitted = none, start-maxLease-time.Millisecond }),
			says{isMarked: true, maxLease: maxLease}},
		"admitted in another process": {view(func(m *scripts.Marker) { m.Run, m.Members, m.Admitted = "x", none, start }), says{maxLease: maxLease}},
		"marked recently":             {view(func(m *scripts.Marker) { m.Admitted = start - time.Second }), says{isMarked: true, maxLease: maxLease}},
	} {
		var got says
		got.isMarked, got.maxLease = c.view.IsMarked(), c.view.MaxLease()
		got.quarantine = c.view.Quarantine()
		if word, given := change.AdmissionLeft(c.view); given {
			got.given, got.word = true, word
		}
		testkit.Equal(t, got, c.want, what)
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
