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

func changeOf(t *testing.T, from, to *scripts.List) change.Change {
	t.Helper()
	c, err := change.New(from, to)
	testkit.Must(t, err)
	return c
}

func (c *cluster) has(what string, name string, members, next *scripts.List, generation uint64) {
	c.t.Helper()
	if m := c.look(name).Marker(); m.Claimed || !m.Members.Equal(members) || !m.Next.Equal(next) || m.Generation != generation {
		c.t.Errorf("%s: the marker of %s is %q", what, name, m)
	}
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
		trail, last := c.carryOut(step.p, nil)
		if got := strings.Join(trail, " "); got != step.want || last.Do != change.Done {
			t.Fatalf("%q, want %q; %v", got, step.want, last.Err)
		}
	}
	c.has("added", "d", abcd, none, 8)
	if _, last := c.carryOut(changeOf(t, abcd, abd).Announce(), nil); last.Err == nil || !strings.Contains(last.Err.Error(), "less than one max lease ago") {
		t.Fatalf("the next change follows at once: %v", last.Err)
	}
	c.pass(maxLease)
	trail, _ := c.carryOut(changeOf(t, abcd, abd).Announce(), nil)
	more, last := c.carryOut(change.Commit(abcd), nil) // with the removed one
	if got := strings.Join(append(trail, more...), " "); got != "read raise a b d a b d c" || last.Do != change.Done {
		t.Fatalf("removed: %q, %v", got, last.Err)
	}
	for _, name := range abcd.Names() {
		c.has("removed", name, abd, none, 9)
	}
	if v := c.look("c"); !change.IsRetired(v) || v.Standing(abc) != membership.Refuses {
		t.Errorf("c is retired: %v, and stands as %d", change.IsRetired(v), v.Standing(abc))
	}
	c.pass(maxLease)
	if trail, _ := c.carryOut(changeOf(t, abd, abcd).Announce(), nil); strings.Join(trail, " ") != "c pause read raise a b c d" {
		t.Errorf("taken back: %q", trail)
	}
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
	if got := strings.Join(trail, " "); got != "read raise a b" || last.Err == nil || !strings.Contains(last.Err.Error(), "on b a change to {b, c} is under way") {
		t.Errorf("%q, %v", got, last.Err)
	}
	if got, last := c.carryOut(change.Abort(abc), nil); strings.Join(got, " ") != "a b c" || last.Do != change.Done {
		t.Errorf("taken back on %q, %v", got, last.Err)
	}
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
	if got := strings.Join(trail, " "); got != "read raise a b read raise b" || last.Do != change.Done {
		t.Errorf("%q, %v", got, last.Err)
	}
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
		if err := p.Next().Err; err == nil || !strings.Contains(err.Error(), "the token counters were "+what+" on 1 of {a, b, c}") {
			t.Errorf("%s: %v", what, err)
		}
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
			trail, last := world.carryOut(change.Abort(abcd), nil)
			if got := fmt.Sprint(last.Err); c.err != "" && !strings.Contains(got, c.err) || c.err == "" && last.Err != nil {
				t.Errorf("%v, want %q", got, c.err)
			}
			if got := strings.Join(trail, " "); got != c.marks || strings.Join(last.Report.NoAnswer, " ") != c.noAnswer {
				t.Errorf("it marks %q, and %q do not answer", got, last.Report.NoAnswer)
			}
			for _, name := range trail {
				world.has("taken back", name, abc, none, 7)
				if wait := change.Waits(world.look(name)); wait != maxLease {
					t.Errorf("the next change waits %v on %s", wait, name)
				}
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
			trail, last := world.carryOut(c.by, nil)
			said := fmt.Sprint(last.Err)
			if last.Do != change.Failed || len(trail) > 0 || !strings.Contains(said, c.says) {
				t.Fatalf("it marks %q and says %s", trail, said)
			}
			if c.commit == nil {
				return
			}
			if step := "members commit with the URLs of " + c.commit.String() + " gives"; !strings.Contains(said, step) {
				t.Fatalf("it does not say %q: %s", step, said)
			}
			if _, last := world.carryOut(change.Commit(c.commit), nil); last.Do != change.Done {
				t.Fatalf("the step that it names fails: %v", last.Err)
			}
			for _, name := range c.commit.Names() {
				if m := world.look(name).Marker(); !m.Members.Equal(c.commit) || m.Next.Len() > 0 {
					t.Errorf("%s has %s afterwards", name, m.Members)
				}
			}
			world.pass(maxLease)
			to := change.Without(c.commit, "c")
			if _, last := world.carryOut(changeOf(t, c.commit, to).Announce(), nil); last.Do != change.Done {
				t.Errorf("the next change: %v", last.Err)
			}
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
	if err := p.Next().Err; err == nil || err.Error() != "a: cut off (run the same command again to continue)" {
		t.Errorf("%v", err)
	}
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
	if last.Err == nil || !strings.Contains(last.Err.Error(), "is another members command running") || changes != 20 {
		t.Errorf("after %d changes: %v", changes, last.Err)
	}
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
	if trail, last := c.carryOut(change.Abort(five), nil); strings.Join(trail, " ") != "a b d e" || last.Do != change.Done {
		t.Errorf("taken back on %q, %v", trail, last.Err)
	}

	this := func(m *scripts.Marker) { m.Members, m.Generation = abd, 10 } // retired by this change
	c = newClusterOf(t, absent, absent, nil, back, this)
	if trail, last := c.carryOut(change.Abort(abde), nil); len(trail) > 0 || last.Err == nil || !strings.Contains(last.Err.Error(), "is committed on e already") {
		t.Errorf("committed, and taken back on %q, %v", trail, last.Err)
	}
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
			world := newClusterOf(t, c.masters...)
			trail, last := world.carryOut(c.by, nil)
			if want := fmt.Sprintf("b has the generation %d, which counts no changes: wipe it (DEL quorumlock:marker)", generation); len(trail) > 0 ||
				last.Err == nil || !strings.Contains(last.Err.Error(), want) {
				t.Errorf("%s marks %q and says %v, want %q", what, trail, last.Err, want)
			}
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
	if _, last := world.carryOut(changeOf(t, abc, scripts.NewList("a", "b")).Announce(), nil); last.Do != change.Done {
		t.Fatal(last.Err)
	}
	if _, last := world.carryOut(change.Commit(abc), nil); last.Do != change.Done {
		t.Fatal(last.Err)
	}
	world.has("committed", "a", scripts.NewList("a", "b"), none, most)
}

// The advice names the masters that it is about: a new one that does not answer is not yet a member. If
// all answer, it names none.
func TestWhatToStart(t *testing.T) {
	world := newClusterOf(t, marked, marked, marked, absent)
	if _, last := world.carryOut(changeOf(t, abc, abcd).Announce(), nil); last.Err == nil ||
		last.Err.Error() != "d does not answer: it is the new master: start it, or give another" {
		t.Errorf("the new one is away: %v", last.Err)
	}
	of8 := func(l *scripts.List) setup { return func(m *scripts.Marker) { m.Members, m.Generation = l, 8 } }
	for what, c := range map[string]struct {
		masters []setup
		want    string // who is to be started; empty for none
	}{
		"all answer": {[]setup{of8(abcd), of8(abcd), marked, marked}, ""},
		"d is away":  {[]setup{of8(abcd), of8(abd), marked, absent}, "start the masters that do not answer, or give their URLs (d), and repeat"},
	} {
		world := newClusterOf(t, c.masters...)
		_, last := world.carryOut(change.Abort(abcd), nil)
		said := fmt.Sprint(last.Err)
		if !strings.Contains(said, "quorumlock admit -yes -members") || !strings.Contains(said, c.want) || strings.Contains(said, "start the") != (c.want != "") {
			t.Errorf("%s: %s", what, said)
		}
	}
}
