package membership_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// carryOut does what a procedure says, and returns a word for each step.
func (c *cluster) carryOut(p *change.Procedure, before func(step change.Step)) (trail []string, last change.Step) {
	c.t.Helper()
	for {
		step := p.Next()
		if before != nil {
			before(step)
		}
		switch step.Do {
		case change.Look:
			views := map[string]*membership.View{}
			for _, name := range step.Names {
				if c.masters[name] != nil {
					views[name] = c.look(name)
				}
			}
			p.Looked(views)
		case change.Pause:
			trail = append(trail, "pause")
			c.pass(step.Wait)
			p.Paused()
		case change.ReadTokens:
			trail = append(trail, "read")
			p.TokensRead(step.Names)
		case change.RaiseTokens:
			trail = append(trail, "raise")
			p.TokensRaised(step.Names)
		case change.Write:
			trail = append(trail, step.Names[0])
			p.Wrote(*c.run(step.Names[0], step.Call).Mark)
		default:
			return trail, step
		}
		if len(trail) > 100 {
			c.t.Fatalf("it does not end: %q", trail)
		}
	}
}

// done carries out a procedure, which must end well. The trail is a word for each step.
func (c *cluster) done(p *change.Procedure) (trail string) {
	c.t.Helper()
	words, last := c.carryOut(p, nil)
	if last.Do != change.Done {
		c.t.Fatalf("%q, and then: %v", words, last.Err)
	}
	return strings.Join(words, " ")
}

// marks is done with that trail.
func (c *cluster) marks(what string, p *change.Procedure, want string) {
	c.t.Helper()
	testkit.Equal(c.t, c.done(p), want, what)
}

// refuses carries out a procedure, which must mark nothing, and say that.
func (c *cluster) refuses(what string, p *change.Procedure, want string) (said string) {
	c.t.Helper()
	trail, last := c.carryOut(p, nil)
	said = fmt.Sprint(last.Err)
	testkit.Check(c.t, last.Do == change.Failed && len(trail) == 0 && strings.Contains(said, want),
		"%s: it marks %q and says %s, want %q", what, trail, said, want)
	return said
}

func changeOf(t *testing.T, from, to *scripts.List) change.Change {
	t.Helper()
	c, err := change.New(from, to)
	testkit.Must(t, err)
	return c
}

func (c *cluster) has(what string, name string, members, next *scripts.List, generation uint64) {
	c.t.Helper()
	m := c.look(name).Marker()
	testkit.Check(c.t, !m.Claimed && m.Members.Equal(members) && m.Next.Equal(next) && m.Generation == generation,
		"%s: the marker of %s is %q", what, name, m)
}

// A master is replaced, step by step: the marks are in the order of the names, and the pass over the
// token counters comes before them.
func TestReplaceAMaster(t *testing.T) {
	c := newClusterOf(t, marked, marked, marked, nil)
	for _, step := range []struct {
		p    *change.Procedure
		want string
	}{
		{changeOf(t, abc, abcd).Announce(), "d pause read raise a b c d"},
		{changeOf(t, abc, abcd).Announce(), ""}, // it is announced
		{change.Commit(abcd), "a b c d"},
		{change.Commit(abcd), ""},
	} {
		c.marks("replace", step.p, step.want)
	}
	c.has("added", "d", abcd, none, 8)
	c.refuses("the next change, at once", changeOf(t, abcd, abd).Announce(), "less than one max lease ago")
	c.pass(maxLease)
	c.marks("removed", changeOf(t, abcd, abd).Announce(), "read raise a b d")
	c.marks("removed, with the removed one", change.Commit(abcd), "a b d c")
	for _, name := range abcd.Names() {
		c.has("removed", name, abd, none, 9)
	}
	v := c.look("c")
	testkit.Check(t, change.IsRetired(v) && v.Relation(abc) == membership.Refuses,
		"c is retired: %v, and stands as %d", change.IsRetired(v), v.Relation(abc))
	c.pass(maxLease)
	c.marks("taken back", changeOf(t, abd, abcd).Announce(), "c pause read raise a b c d")
}

// A mark that is not written ends the run: the next look says why.
func TestTheFirstMarkThatIsNotWrittenEndsTheRun(t *testing.T) {
	c := newClusterOf(t, marked, marked, marked)
	other := changeOf(t, abc, scripts.NewList("b", "c")).Announce()
	trail, last := c.carryOut(changeOf(t, abc, scripts.NewList("a", "b")).Announce(), func(step change.Step) {
		if step.Do == change.Write && step.Names[0] == "a" && other != nil {
			p := other
			other = nil
			c.carryOut(p, nil) // another command is faster on b and c
		}
	})
	got := strings.Join(trail, " ")
	testkit.Check(t, got == "read raise a b" && last.Err != nil &&
		strings.Contains(last.Err.Error(), "on b a change to {b, c} is under way"), "%q, %v", got, last.Err)
	c.marks("taken back", change.Abort(abc), "a b c")
	for _, name := range abc.Names() {
		c.has("taken back", name, abc, none, 7)
	}
}

// A command that takes longer than half a max lease stops writing.
func TestALateMarkIsNotWritten(t *testing.T) {
	c := newClusterOf(t, marked, marked, marked)
	slow := true
	trail, last := c.carryOut(changeOf(t, abc, scripts.NewList("a", "b")).Announce(), func(step change.Step) {
		if step.Do == change.Write && step.Names[0] == "b" && slow {
			slow = false
			c.pass(maxLease / 2)
		}
	})
	got := strings.Join(trail, " ")
	testkit.Check(t, got == "read raise a b read raise b" && last.Do == change.Done, "%q, %v", got, last.Err)
}

// The token counters of a majority are read and raised, or nothing is written.
func TestAnnounceNeedsTheTokensOfAMajority(t *testing.T) {
	for _, raised := range []bool{false, true} {
		c := newClusterOf(t, marked, marked, marked)
		p := changeOf(t, abc, scripts.NewList("a", "b")).Announce()
		p.Looked(map[string]*membership.View{"a": c.look("a"), "b": c.look("b"), "c": c.look("c")})
		what := "read"
		if raised {
			what = "raised"
			p.TokensRead([]string{"a", "b"})
			p.TokensRaised([]string{"b"})
		} else {
			p.TokensRead([]string{"b"})
		}
		err := p.Next().Err
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "the token counters were "+what+" on 1 of {a, b, c}"),
			"%s: %v", what, err)
	}
}

// An abort takes the change back on the masters that answer, and says which do not.
func TestAbort(t *testing.T) {
	announced := becoming(abcd)
	for what, c := range map[string]struct {
		masters  []setup
		marks    string
		noAnswer string
		err      string
	}{
		"all":                  {[]setup{announced, announced, announced, announced}, "a b c d", "", ""},
		"one does not answer":  {[]setup{announced, absent, announced, claimed}, "a c", "b", ""},
		"nothing is announced": {[]setup{marked, marked, nil, nil}, "", "", ""},
		"one has committed":    {[]setup{announced, listing(abcd), announced, announced}, "", "", "the change to {a, b, c, d} is committed on b already"},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, c.masters...)
			if c.err != "" {
				world.refuses("abort", change.Abort(abcd), c.err)
				return
			}
			trail, last := world.carryOut(change.Abort(abcd), nil)
			got := strings.Join(trail, " ")
			testkit.Check(t, last.Do == change.Done && got == c.marks && strings.Join(last.Report.NoAnswer, " ") == c.noAnswer,
				"%v: it marks %q, and %q do not answer", last.Err, got, last.Report.NoAnswer)
			for _, name := range trail {
				world.has("taken back", name, abc, none, 7)
				testkit.Equal(t, change.Waits(world.look(name)), maxLease, name)
			}
		})
	}
}

// A change was committed on one master and taken back on the others, or the other way round. Whatever
// command comes next names a step that gives all masters one list, and then the next change works.
func TestMastersWithoutOneListAreToldTheWayOut(t *testing.T) {
	ab, abce := scripts.NewList("a", "b"), scripts.NewList("a", "b", "c", "e")
	generation8 := func(l *scripts.List) setup { return func(m *scripts.Marker) { m.Members, m.Generation = l, 8 } }
	announced := becoming(abcd)
	const admit = "quorumlock admit -yes -members"
	for what, c := range map[string]struct {
		masters []setup // a, b, c, d
		by      *change.Procedure
		says    string // at first
		commit  *scripts.List
	}{
		"abort, one committed":     {[]setup{generation8(abcd), marked, marked, marked}, change.Abort(abcd), "no change is announced", abc},
		"add it again":             {[]setup{generation8(abcd), marked, marked, marked}, changeOf(t, abc, abcd).Announce(), "a has the members {a, b, c, d}", abc},
		"add another":              {[]setup{generation8(abcd), marked, marked, nil, nil}, changeOf(t, abc, abce).Announce(), "a has the members {a, b, c, d}", abc},
		"remove another":           {[]setup{generation8(abcd), marked, marked, marked}, changeOf(t, abc, ab).Announce(), "a has the members {a, b, c, d}", abc},
		"by its list":              {[]setup{generation8(abcd), marked, marked, marked}, changeOf(t, abcd, abd).Announce(), "b has the members {a, b, c} ", abc},
		"commit, one committed":    {[]setup{generation8(abcd), marked, marked, nil}, change.Commit(abcd), "is on 1 of its masters", abc},
		"abort, most committed":    {[]setup{generation8(abcd), generation8(abcd), marked, generation8(abcd)}, change.Abort(abcd), "no change is announced", abcd},
		"add, most committed":      {[]setup{generation8(abcd), generation8(abcd), marked, generation8(abcd)}, changeOf(t, abc, abcd).Announce(), "a has the members {a, b, c, d}", abcd},
		"abort, committed and not": {[]setup{generation8(abcd), announced, announced, announced}, change.Abort(abcd), "is committed on a already", abcd},
		"a removal, abort":         {[]setup{generation8(ab), marked, marked}, change.Abort(abc), "most masters have {a, b, c}, and a another list, from a change that was taken back: wipe it there (DEL quorumlock:marker)", nil},
		"a removal, add":           {[]setup{generation8(ab), marked, marked, nil}, changeOf(t, abc, abcd).Announce(), "and a another list, from a change that was taken back: wipe it there", nil},
		"a removal, remove":        {[]setup{generation8(ab), marked, marked}, changeOf(t, abc, ab).Announce(), "and a another list, from a change that was taken back: wipe it there", nil},
		"no list has a majority":   {[]setup{generation8(abcd), generation8(abcd), marked, marked}, change.Abort(abcd), admit, nil},
		"none, add":                {[]setup{generation8(abcd), generation8(abcd), marked, marked}, changeOf(t, abc, abcd).Announce(), admit, nil},
		"none, commit":             {[]setup{generation8(abcd), generation8(abcd), marked, nil}, change.Commit(abcd), "quorumlock admit -members", nil},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, c.masters...)
			said := world.refuses("at first", c.by, c.says)
			if c.commit == nil {
				return
			}
			if step := "members commit with the URLs of " + c.commit.String() + " gives"; !strings.Contains(said, step) {
				t.Fatalf("it does not say %q: %s", step, said)
			}
			world.done(change.Commit(c.commit))
			for _, name := range c.commit.Names() {
				m := world.look(name).Marker()
				testkit.Check(t, m.Members.Equal(c.commit) && m.Next.Len() == 0, "%s has %s afterwards", name, m.Members)
			}
			world.pass(maxLease)
			world.done(changeOf(t, c.commit, change.Without(c.commit, "c")).Announce())
		})
	}
}

// A run ends when a mark gets no answer, and when the masters go on changing.
func TestRunsEnd(t *testing.T) {
	c := newClusterOf(t, marked, marked, marked)
	p := changeOf(t, abc, scripts.NewList("a", "b")).Announce()
	for p.Next().Do != change.Write {
		switch step := p.Next(); step.Do {
		case change.Look:
			p.Looked(map[string]*membership.View{"a": c.look("a"), "b": c.look("b"), "c": c.look("c")})
		case change.ReadTokens:
			p.TokensRead(step.Names)
		default:
			p.TokensRaised(step.Names)
		}
	}
	p.Unanswered(p.Next().Names[0], errors.New("cut off"))
	err := p.Next().Err
	testkit.Check(t, err != nil && err.Error() == "a: cut off (run the same command again to continue)", "%v", err)
	slow := newClusterOf(t, marked, marked, marked)
	if _, last := slow.carryOut(changeOf(t, abc, scripts.NewList("a", "b")).Announce(), func(step change.Step) {
		if step.Do == change.Write {
			slow.pass(maxLease / 2)
		}
	}); last.Err == nil || !strings.Contains(last.Err.Error(), "the marks come too late") {
		t.Errorf("too slow: %v", last.Err)
	}
	changes := 0
	_, last := c.carryOut(changeOf(t, abc, scripts.NewList("a", "b")).Announce(), func(step change.Step) {
		if step.Do == change.Write {
			changes++
			c.put("a", func(m *scripts.Marker) { m.Generation += uint64(changes) })
		}
	})
	testkit.Check(t, last.Err != nil && strings.Contains(last.Err.Error(), "is another members command running") &&
		changes == 20, "after %d changes: %v", changes, last.Err)
}

// A master that an earlier change has retired has the list of the change that is under way, and has
// committed nothing of it.
func TestAMasterThatWasRetiredBeforeHasNotCommitted(t *testing.T) {
	abde := scripts.NewList("a", "b", "d", "e")
	back := func(m *scripts.Marker) { m.Members, m.Next, m.Generation = abde, abd, 9 }
	retired := func(m *scripts.Marker) { m.Members, m.Generation = abd, 8 }
	c := newClusterOf(t, back, back, retired, back, back)
	views := map[string]*membership.View{}
	for name := range c.masters {
		views[name] = c.look(name)
	}
	if to := change.Pending(abcd, views); to == nil || !to.Equal(abd) { // c by mistake for e
		t.Errorf("pending: %v", to)
	}
	c.marks("taken back", change.Abort(five), "a b d e")

	this := func(m *scripts.Marker) { m.Members, m.Generation = abd, 10 } // retired by this change
	c = newClusterOf(t, absent, absent, nil, back, this)
	c.refuses("committed", change.Abort(abde), "is committed on e already")
}

// A generation that no number of changes makes is refused, and does not spread. So no command counts
// beyond what a marker can have.
func TestAForgedGeneration(t *testing.T) {
	const most = 1 << 52
	of := func(generation uint64, next *scripts.List) setup {
		return func(m *scripts.Marker) { m.Generation, m.Next = generation, next }
	}
	for _, generation := range []uint64{most, 1<<53 - 1} {
		for what, c := range map[string]struct {
			masters []setup
			by      *change.Procedure
		}{
			"announce": {[]setup{marked, of(generation, none), marked, nil}, changeOf(t, abc, abcd).Announce()},
			"commit":   {[]setup{becoming(abcd), of(generation, abcd), becoming(abcd), becoming(abcd)}, change.Commit(abcd)},
		} {
			newClusterOf(t, c.masters...).refuses(what, c.by,
				fmt.Sprintf("b has the generation %d, which counts no changes: wipe it (DEL quorumlock:marker)", generation))
		}

		world := newClusterOf(t, of(generation, none), marked, nil)
		world.settle(clientOf(abc), world.views(abc))
		world.has("marked again", "c", abc, none, 7)
		call, err := change.Admit(world.look("a"), abc)
		testkit.Must(t, err)
		world.run("a", call)
		world.has("admitted", "a", abc, none, 1)
	}

	world := newClusterOf(t, of(most-1, none), of(most-1, none), marked)
	world.done(changeOf(t, abc, scripts.NewList("a", "b")).Announce())
	world.done(change.Commit(abc))
	world.has("committed", "a", scripts.NewList("a", "b"), none, most)
}

// The advice names the masters that it is about: a new one that does not answer is not yet a member. If
// all answer, it names none.
func TestWhatToStart(t *testing.T) {
	const away = "d does not answer: it is the new master: start it, or give another"
	world := newClusterOf(t, marked, marked, marked, absent)
	said := world.refuses("the new one is away", changeOf(t, abc, abcd).Announce(), away)
	testkit.Equal(t, said, away, "it says")
	of8 := func(l *scripts.List) setup { return func(m *scripts.Marker) { m.Members, m.Generation = l, 8 } }
	for what, c := range map[string]struct {
		masters []setup
		want    string // who is to be started; empty for none
	}{
		"all answer": {[]setup{of8(abcd), of8(abcd), marked, marked}, ""},
		"d is away":  {[]setup{of8(abcd), of8(abd), marked, absent}, "start the masters that do not answer, or give their URLs (d), and repeat"},
	} {
		said := newClusterOf(t, c.masters...).refuses(what, change.Abort(abcd), "quorumlock admit -yes -members")
		testkit.Check(t, strings.Contains(said, c.want) && strings.Contains(said, "start the") == (c.want != ""),
			"%s: %s", what, said)
	}
}
