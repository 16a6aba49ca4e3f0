package waiting

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// trying plays a call's tries: each attempt takes took, and pauses are the shortest.
type trying struct {
	*Tries
	now  clock.Instant
	took time.Duration
}

func (t *trying) refused(votes, unable int, by ...string) (namedBy int) {
	t.now = t.now.Add(t.took)
	var down quorate.Set
	for i, owner := range by {
		if owner == "" && down.Len() < unable {
			down |= quorate.Of(i)
		}
	}
	return t.Refused(Refusals{By: by, Votes: votes, Unable: down}, t.took, Moment{Now: t.now, Step: step})
}

func (t *trying) next() (Approach, time.Duration) {
	approach, pause := t.Next(Moment{Now: t.now, Step: step}, func(int) int { return 0 })
	t.now = t.now.Add(pause)
	return approach, pause
}

func newTrying(nodes, need int) *trying {
	return &trying{NewTries(quorate.Rule{N: nodes, Need: need}), clock.Instant(time.Hour), 10 * ms}
}

// One attempt tells who holds: a quorum of the nodes names him.
func TestTriesEndAtAHolder(t *testing.T) {
	for _, c := range []struct {
		nodes, need, unable int
		by                  []string
		want                int
	}{
		{3, 2, 0, []string{"x", "x", ""}, 1},
		{3, 2, 0, []string{"", "x", "x"}, 2},
		{3, 2, 0, []string{"x", "y", "x"}, 2},
		{3, 2, 0, []string{"x", "", ""}, -1},
		{3, 2, 0, []string{"x", "y", "z"}, -1},
		{3, 2, 1, []string{"x", "", ""}, -1},
		{3, 2, 0, []string{"", "", ""}, -1},
		{5, 3, 0, []string{"x", "y", "y", "x", ""}, -1},
		{5, 3, 0, []string{"x", "y", "y", "x", "y"}, 4},
		{3, 3, 0, []string{"x", "x", ""}, -1},
		{3, 3, 0, []string{"x", "x", "x"}, 2},
		{1, 1, 0, []string{"x"}, 0},
	} {
		tries := newTrying(c.nodes, c.need)
		testkit.Equal(t, tries.refused(0, c.unable, c.by...), c.want, c)
	}
}

// Somebody who refuses for four times as long as the call's attempts take counts as a holder if the nodes without him
// are too few.
func TestTriesEndWhereSomebodyLasts(t *testing.T) {
	for _, c := range []struct {
		name        string
		nodes, need int
		unable      int
		by          []string
		want        int
	}{
		{"next to a node that is down", 3, 2, 1, []string{"x", "", ""}, 0},
		{"where all are needed", 3, 3, 0, []string{"", "x", ""}, 1},
		{"next to another", 3, 2, 0, []string{"", "x", "y"}, 1},
		{"the others could grant", 3, 2, 0, []string{"x", "", ""}, -1},
		{"the others could grant, of five", 5, 3, 0, []string{"x", "y", "", "", ""}, -1},
		{"the others could not all grant, of five", 5, 3, 1, []string{"x", "y", "", "", ""}, 0},
	} {
		tries := newTrying(c.nodes, c.need)
		tries.took = 0
		testkit.Equal(t, tries.refused(1, c.unable, c.by...), -1, c.name+": at first: named by")
		tries.took = 10 * ms
		tries.now = tries.now.Add(20*ms - 1)
		testkit.Equal(t, tries.refused(1, c.unable, c.by...), -1, c.name+": before: named by")
		tries.now = tries.now.Add(1)
		testkit.Equal(t, tries.refused(1, c.unable, c.by...), c.want, c.name+": named by")
	}
	// Who came later is not taken for him.
	tries := newTrying(3, 2)
	tries.refused(0, 0, "y", "x", "")
	tries.now = tries.now.Add(40 * ms)
	testkit.Equal(t, tries.refused(0, 1, "z", "x", ""), 1, "named by")
	testkit.Equal(t, newTrying(3, 2).refused(0, 1, "z", "", ""), -1, "at once: named by")
	// Whom a quorum names holds, also next to one who has been there for longer.
	tries = newTrying(3, 2)
	tries.refused(0, 0, "x", "", "")
	tries.refused(0, 0, "", "y", "")
	tries.now = tries.now.Add(40 * ms)
	testkit.Equal(t, tries.refused(0, 0, "x", "y", "y"), 2, "next to an older one: named by")
	// Time counts in steps, at least.
	tries = newTrying(3, 2)
	tries.took = 0
	tries.refused(0, 1, "x", "", "")
	tries.now = tries.now.Add(4*step - 1)
	testkit.Equal(t, tries.refused(0, 1, "x", "", ""), -1, "before four steps: named by")
	tries.now = tries.now.Add(1)
	testkit.Equal(t, tries.refused(0, 1, "x", "", ""), 0, "after four steps: named by")
}

// A try probes, unless the probe node names one that it has named before: then all are asked who holds.
func TestTriesAskFirst(t *testing.T) {
	tries := newTrying(3, 2)
	want := func(refusal string, want Approach) {
		t.Helper()
		if refusal != "" {
			tries.refused(0, 0, refusal, "", "")
		}
		got, _ := tries.next()
		testkit.Equal(t, got, want, "approach after a refusal by "+refusal)
	}
	want("x", ProbeFirst)
	want("y", ProbeFirst)
	want("z", AskAll)     // the third in a row
	want("", AskAll)      // a turn without an attempt
	want("a", ProbeFirst) // after all were asked
	want("a", AskAll)
	want("a", ProbeFirst)
	want("b", ProbeFirst)
	tries.refused(0, 0, "a", "new", "") // the probe node had not answered in time
	want("", AskAll)

	tries = newTrying(3, 3) // one node is enough to know
	for range 3 {
		want("x", ProbeFirst)
	}
}

// The pause doubles with each attempt that got votes, up to 16 times the duration of an attempt, at least a step. After
// a refusal that left no votes it is short.
func TestTriesPause(t *testing.T) {
	tries := newTrying(3, 2)
	want := func(votes int, want time.Duration) {
		t.Helper()
		tries.refused(votes, 0, "x", "", "")
		_, least := tries.next()
		testkit.Equal(t, least, want, "the shortest pause")
	}
	want(0, 5*ms)
	for _, pause := range []time.Duration{10, 20, 40, 80, 80, 80} {
		want(1, pause*ms)
	}
	want(0, 5*ms)
	want(0, 5*ms)
	want(1, 80*ms)
	_, most := tries.Next(Moment{Now: tries.now, Step: step}, func(below int) int { return below })
	testkit.Equal(t, most, 240*ms, "the longest pause")

	tries = newTrying(3, 2)
	tries.took = 0
	want(1, step)

	// A node was silent in the first attempt, and is down since.
	tries = newTrying(3, 2)
	tries.took = 500 * ms
	want(1, 500*ms)
	tries.took = 10 * ms
	want(1, 20*ms)
}
