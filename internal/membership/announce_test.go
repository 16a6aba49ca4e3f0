package membership_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// The clock of the master that is added was set back by an hour: its quarantine starts over, and is one
// max lease.
func TestAnAddedMasterWhoseClockWasSetBack(t *testing.T) {
	c := newClusterOf(t, marked, marked, marked, func(m *scripts.Marker) { m.Claimed, m.Admitted = true, start+time.Hour })
	c.marks("add", changeOf(t, abc, abcd).Announce(), "d pause read raise a b c d")
	testkit.Equal(t, c.now()-start, maxLease, "the wait")
}

// The clock of a member was set back by an hour after a change: its wait starts over, and is one max
// lease. A command that does not wait says for how long to wait, and the next one finds it over.
func TestAMemberWhoseClockWasSetBack(t *testing.T) {
	back := func(m *scripts.Marker) { m.Change = start + time.Hour }
	for _, to := range []*scripts.List{abcd, scripts.NewList("a", "b")} {
		c := newClusterOf(t, marked, back, marked, nil)
		by := changeOf(t, abc, to)
		by.Waits = 30100 * time.Millisecond // as it says below
		got := c.done(by.Announce())
		testkit.Check(t, strings.HasPrefix(got, "b pause ") || strings.HasPrefix(got, "b d pause "), "to %s: %q", to, got)

		c = newClusterOf(t, marked, back, marked, nil)
		by.Waits = maxLease - time.Second
		trail, last := c.carryOut(by.Announce(), nil)
		got = strings.Join(trail, " ")
		testkit.Check(t, got == "b" && last.Err != nil && strings.Contains(last.Err.Error(), "waits for another 30.1s"),
			"to %s, with too short a wait: %q, %v", to, got, last.Err)
		c.pass(maxLease)
		c.done(by.Announce())
	}
}

// The wait starts over at the whole max lease, and what else the marker has stays.
func TestTheWaitOfAClockThatWasSetBack(t *testing.T) {
	c := newClusterOf(t, marked, func(m *scripts.Marker) { m.Change, m.Admitted = start+maxLease+1e6, start+time.Second }, marked)
	before := c.look("b").Marker()
	c.carryOut(changeOf(t, abc, scripts.NewList("a", "b")).Announce(), nil)
	before.Change = start + maxLease
	testkit.Equal(t, c.look("b").Text, before.String(), "the marker")
}

// The quarantine of the master that is added runs while the command waits for the last change.
func TestTheAddedMasterIsInQuarantineWhileTheLastChangeIsAwaited(t *testing.T) {
	changed := func(m *scripts.Marker) { m.Change = start + maxLease - 4*time.Second }
	c := newClusterOf(t, marked, changed, marked, nil)
	by := changeOf(t, abc, abcd)
	by.Waits = maxLease - 5*time.Second
	c.refuses("with too short a wait", by.Announce(), "less than one max lease ago")
	testkit.Check(t, c.look("d").IsBlank(), "a command that refuses has marked %v", c.look("d").Marker())
	by.Waits = maxLease
	c.marks("add", by.Announce(), "d pause pause read raise a b c d")
	testkit.Equal(t, c.now()-start, maxLease, "the wait")
}

// A command that would wait says first what is wrong.
func TestWhatIsWrongIsSaidBeforeTheWait(t *testing.T) {
	waits := func(m *scripts.Marker) { m.Change = start + maxLease }
	ab := scripts.NewList("a", "b")
	for what, c := range map[string]struct {
		masters []setup
		by      change.Change
		want    string
	}{
		"another list":            {[]setup{waits, waits, waits, nil}, changeOf(t, ab, scripts.NewList("a", "b", "d")), "a has the members {a, b, c}"},
		"another change":          {[]setup{waits, becoming(abcd), waits, becoming(abcd)}, changeOf(t, abc, ab), "on b a change to {a, b, c, d} is under way"},
		"one does not answer":     {[]setup{waits, absent, waits, nil}, changeOf(t, abc, abcd), "b does not answer: all members of {a, b, c, d} must (a dead one is removed first)"},
		"one is blank":            {[]setup{waits, nil, waits, nil}, changeOf(t, abc, abcd), "b is blank"},
		"the new one is a member": {[]setup{waits, waits, waits, listing(five)}, changeOf(t, abc, abcd), "d is already the member d of " + five.String()},
	} {
		c.by.Waits = 2 * maxLease
		newClusterOf(t, c.masters...).refuses(what, c.by.Announce(), c.want)
	}
}

// The announcement names what is wrong with the URLs.
func TestAnnounceByWrongURLs(t *testing.T) {
	for what, c := range map[string]struct {
		by   change.Change
		want string
	}{
		"the new master last": {changeOf(t, scripts.NewList("b", "c", "d"), abcd), "b has the members {a, b, c} (generation 7), not {b, c, d}: d is not one of these, and the URL of the new master comes first"},
		"a member is missing": {changeOf(t, scripts.NewList("a", "b"), abd), "not {a, b}: give the URLs of that list"},
		"one that is not":     {changeOf(t, abcd, abd), "not {a, b, c, d}: give the URLs of that list"},
		"made already":        {changeOf(t, scripts.NewList("a", "b"), abc), "not {a, b}: the change is made already"},
		"removed already":     {changeOf(t, abcd, abc), "not {a, b, c, d}: the change is made already"},
	} {
		newClusterOf(t, marked, marked, marked, nil).refuses(what, c.by.Announce(), c.want)
	}
	world := newClusterOf(t, becoming(abcd), becoming(abcd), becoming(abcd), becoming(abcd))
	const ends = "members commit with the URLs of {a, b, c, d}, or members abort with the URLs of {a, b, c, d}"
	for _, by := range []change.Change{changeOf(t, abc, scripts.NewList("a", "b")), changeOf(t, abcd, abd)} {
		world.refuses("a change is under way", by.Announce(), ends)
	}
}

// A master that was added by another name, and taken back, and one that a client with a wrong list began
// to mark, are wiped. The error says so, and then the change works.
func TestMastersThatAreWipedFirst(t *testing.T) {
	const wipe = "wipe it (DEL quorumlock:marker)"
	alias := func(change setup) setup {
		return func(m *scripts.Marker) { m.Member = "b.alias"; change(m) }
	}
	for what, c := range map[string]struct {
		master setup // d, or b
		name   string
		want   string
	}{
		"claimed by another name": {alias(claimed), "d", "d is the member b.alias of {a, b, c}: name it so (?name=... in the URL); or " + wipe},
		"retired by another name": {alias(marked), "d", "or " + wipe + ", and add it by this name"},
		"a member being marked for another list": {func(m *scripts.Marker) { m.Claimed, m.Members = true, abd }, "b",
			"b is being marked for {a, b, d}, not {a, b, c}, and accepts nobody: " + wipe + ", and a client with {a, b, c} marks it"},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, marked, marked, marked, nil)
			world.put(c.name, c.master)
			by := changeOf(t, abc, abcd)
			by.Waits = 2 * maxLease
			world.refuses("at first", by.Announce(), c.want)
			world.do(c.name, "DEL", scripts.MarkerKey)
			world.settle(clientOf(abc), world.views(abc))
			world.done(by.Announce())
		})
	}
}

// Masters restart with their data between announce and commit. Each command names a client with the
// list before, and once that has marked them the change goes on.
func TestMastersThatRestartInTheMidstOfAChange(t *testing.T) {
	restarted := func(next *scripts.List) setup {
		return func(m *scripts.Marker) { m.Run, m.Next = "old", next }
	}
	ab := scripts.NewList("a", "b")
	for what, c := range map[string]struct {
		masters []setup
		to      *scripts.List
		commit  string // what it says
		again   string // and the change, when it is repeated
	}{
		"all of a removal": {[]setup{restarted(ab), restarted(ab), restarted(none)}, ab,
			"a is blank: a client with {a, b, c} must mark it", "a is blank: a client with {a, b, c} must mark it"},
		"one of a removal": {[]setup{becoming(ab), restarted(ab), marked}, ab,
			"a client with {a, b, c} comes first (lock any name), which marks what is blank: b; then repeat members add or remove",
			"b is blank: a client with {a, b, c} must mark it"},
		"two of an addition": {[]setup{restarted(abcd), restarted(abcd), becoming(abcd), becoming(abcd)}, abcd,
			"which marks what is blank: a, b; then repeat", "a is blank: a client with {a, b, c} must mark it"},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, c.masters...)
			by := changeOf(t, abc, c.to)
			by.Waits = 2 * maxLease
			world.refuses("commit", change.Commit(c.to), c.commit)
			world.refuses("again", by.Announce(), c.again)
			world.found(clientOf(abc), world.views(abc))
			world.done(by.Announce())
			world.done(change.Commit(c.to))
			for _, name := range c.to.Names() {
				world.has("committed", name, c.to, none, 8)
			}
		})
	}
}

// A commit goes on without members that do not answer or are blank, while a majority of the new list
// has the change.
func TestCommitWithoutSome(t *testing.T) {
	announced := becoming(abcd)
	committed := func(m *scripts.Marker) { m.Members, m.Generation = abcd, 8 }
	for what, c := range map[string]struct {
		masters []setup
		want    string // the marks; or what the error says
	}{
		"all have it":                   {[]setup{announced, announced, announced, announced}, "a b c d"},
		"one does not answer":           {[]setup{announced, absent, announced, announced}, "a c d"},
		"one is blank":                  {[]setup{announced, announced, announced, nil}, "a b c"},
		"one was marked since":          {[]setup{announced, marked, announced, announced}, "a b c d"},
		"the new one is claimed":        {[]setup{announced, announced, announced, claimed}, "a b c d"},
		"some have committed":           {[]setup{listing(abcd), listing(abcd), announced, absent}, "c"},
		"one is left over":              {[]setup{committed, committed, marked, committed}, "c"},
		"one was marked, one committed": {[]setup{listing(abcd), marked, announced, announced}, "b c d"},
		"all have committed":            {[]setup{listing(abcd), listing(abcd), listing(abcd), absent}, ""},
		"two do not answer":             {[]setup{announced, absent, absent, announced}, "the change to {a, b, c, d} is on 2 of its masters, and must be on 3: start b, c and repeat"},
		"all that answer committed":     {[]setup{listing(abcd), absent, absent, listing(abcd)}, "and must be on 3: start b, c and repeat this command. If none"},
		"or are blank":                  {[]setup{listing(abcd), nil, nil, listing(abcd)}, "and must be on 3: a client with {a, b, c, d} comes first (lock any name), which marks what is blank: b, c; then repeat this command. If none"},
		"none has it":                   {[]setup{marked, marked, marked, nil}, "no change to {a, b, c, d} is announced there"},
		"none answers":                  {[]setup{absent, absent, absent, absent}, "no master of {a, b, c, d} answers"},
		"another change is under way":   {[]setup{becoming(five), marked, marked, nil}, "on a a change to {a, b, c, d, e} is under way"},
		"it has moved on":               {[]setup{func(m *scripts.Marker) { m.Members, m.Next = abcd, five }, announced, announced, announced}, "on a a change to {a, b, c, d, e} is under way"},
		"announced from another list":   {[]setup{announced, func(m *scripts.Marker) { m.Members, m.Next = abd, abcd }, announced, announced}, "b changes from {a, b, d}, and others from {a, b, c}"},
		"a master of another max lease": {[]setup{announced, func(m *scripts.Marker) { m.MaxLease = time.Second }, announced, announced}, "b has the max lease 1s: use -max-lease 1s"},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, c.masters...)
			if len(c.want) > len("a b c d") {
				world.refuses("commit", change.Commit(abcd), c.want)
				return
			}
			world.marks("commit", change.Commit(abcd), c.want)
			for _, name := range strings.Fields(c.want) {
				world.has("committed", name, abcd, none, 8)
			}
		})
	}
}
