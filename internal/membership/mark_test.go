package membership_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// setup is what a test puts on a master; nil for no marker.
type setup = func(*scripts.Marker)

func claimed(m *scripts.Marker)  { m.Claimed = true }
func admitted(m *scripts.Marker) { m.Members, m.Generation, m.Admitted = none, 0, start }

func becoming(next *scripts.List) setup { return func(m *scripts.Marker) { m.Next = next } }
func listing(l *scripts.List) setup     { return func(m *scripts.Marker) { m.Members = l } }

// absent is the setup of a master that does not answer.
func absent(m *scripts.Marker) { m.Run = "" }

// newClusterOf makes a master for each setup: a, b, c and so on.
func newClusterOf(t *testing.T, setups ...setup) *cluster {
	t.Helper()
	var names []string
	for i := range setups {
		names = append(names, string(rune('a'+i)))
	}
	c := newCluster(t, names...)
	for i, name := range names {
		if setups[i] == nil {
			continue
		}
		c.put(name, setups[i])
		if text := c.look(name).Marker(); text.Run == "" {
			delete(c.masters, name)
		}
	}
	return c
}

// Which masters a client marks, plan by plan.
func TestPlan(t *testing.T) {
	mayNotFound := func(c *membership.Client) { c.Found = false }
	other := listing(abd)
	rounds := func(r ...[]string) [][]string { return r }
	one := func(names ...string) []string { return names }
	for what, c := range map[string]struct {
		list    *scripts.List
		masters []setup
		client  func(*membership.Client)
		want    [][]string
	}{
		// A new deployment: all are claimed, one after the other, and then confirmed.
		"a new deployment":                   {abc, []setup{nil, nil, nil}, nil, rounds(one("a"), one("b"), one("c"), one("a", "b", "c"))},
		"of one master":                      {scripts.NewList("a"), []setup{nil}, nil, rounds(one("a"), one("a"))},
		"of a client that may not found one": {abc, []setup{nil, nil, nil}, mayNotFound, nil},
		"one does not answer":                {abc, []setup{nil, nil, absent}, nil, nil},
		"one refuses":                        {abc, []setup{nil, other, nil}, nil, nil},
		"one is claimed for another":         {abc, []setup{nil, func(m *scripts.Marker) { claimed(m); other(m) }, nil}, nil, nil},
		"one has another max lease":          {abc, []setup{nil, func(m *scripts.Marker) { m.MaxLease = time.Second }, nil}, nil, nil},
		"one is another member":              {abc, []setup{nil, func(m *scripts.Marker) { m.Member = "c" }, nil}, nil, nil},
		"one came back":                      {abc, []setup{nil, func(m *scripts.Marker) { m.Run = "x" }, nil}, nil, rounds(one("a"), one("b"), one("c"), one("a", "b", "c"))},
		"one came back with another list":    {abc, []setup{nil, func(m *scripts.Marker) { m.Run = "x"; other(m) }, nil}, nil, nil},
		"one came back with the next list":   {abc, []setup{nil, func(m *scripts.Marker) { m.Run, m.Members, m.Next = "x", abcd, abc }, nil}, nil, nil},
		"one came back, no founding":         {abc, []setup{nil, func(m *scripts.Marker) { m.Run = "x" }, nil}, mayNotFound, rounds(one("a"), one("b"), one("c"), one("a", "b", "c"))},
		"one accepts it by its next list":    {abc, []setup{func(m *scripts.Marker) { m.Members, m.Next = abcd, abc }, nil, nil}, nil, nil},
		"one was removed":                    {abc, []setup{nil, func(m *scripts.Marker) { m.Members = scripts.NewList("a", "c") }, nil}, nil, nil},
		"one was removed, and came back":     {abc, []setup{nil, func(m *scripts.Marker) { m.Run, m.Members = "x", scripts.NewList("a", "c") }, nil}, nil, nil},
		"the only one came back":             {onlyA, []setup{func(m *scripts.Marker) { m.Run, m.Members = "x", onlyA }}, mayNotFound, rounds(one("a"))},
		"the only one came back with a claim": {onlyA, []setup{func(m *scripts.Marker) { m.Run, m.Members, m.Claimed = "x", onlyA, true }}, nil,
			rounds(one("a"), one("a"))},
		"one came back with a claim": {abc, []setup{nil, func(m *scripts.Marker) { m.Run = "x"; other(m); claimed(m) }, nil}, nil,
			rounds(one("a"), one("b"), one("c"), one("a", "b", "c"))},
		"admitted by an operator": {abc, []setup{admitted, admitted, admitted}, nil, rounds(one("a"), one("b"), one("c"), one("a", "b", "c"))},

		// What another client has begun is ended, also by one that may not found.
		"one is claimed":                     {abc, []setup{nil, claimed, nil}, nil, rounds(one("a"), one("c"), one("a", "b", "c"))},
		"one is claimed, no founding":        {abc, []setup{nil, claimed, nil}, mayNotFound, rounds(one("a"), one("c"), one("a", "b", "c"))},
		"all are claimed":                    {abc, []setup{claimed, claimed, claimed}, mayNotFound, rounds(one("a", "b", "c"))},
		"all are claimed, one is gone":       {abc, []setup{claimed, claimed, absent}, nil, nil},
		"all are claimed, one refuses":       {abc, []setup{claimed, claimed, other}, nil, nil},
		"one is marked":                      {abc, []setup{nil, nil, marked}, mayNotFound, rounds(one("a"), one("b"), one("a", "b"))},
		"one is marked, one is gone":         {abc, []setup{absent, nil, marked}, nil, nil},
		"one is marked, one refuses":         {abc, []setup{other, nil, marked}, nil, nil},
		"one is marked, the rest is claimed": {abc, []setup{claimed, claimed, marked}, mayNotFound, rounds(one("a", "b"))},

		// A quorum accepts the client: a blank master is marked at once, whatever the others are.
		"most are marked":                 {abc, []setup{marked, nil, marked}, mayNotFound, rounds(one("b"))},
		"most are marked, one is claimed": {abc, []setup{marked, claimed, marked}, mayNotFound, rounds(one("b"))},
		"most are marked, one refuses":    {abc, []setup{marked, other, marked}, nil, nil},
		"most are marked, one is gone":    {abc, []setup{marked, absent, marked}, nil, nil},
		"all are marked":                  {abc, []setup{marked, marked, marked}, nil, nil},
		"three of five are":               {five, []setup{listing(five), nil, listing(five), nil, listing(five)}, nil, rounds(one("b", "d"))},
		"three of five are, one is gone":  {five, []setup{listing(five), nil, listing(five), absent, listing(five)}, nil, rounds(one("b"))},
		"three are, one is claimed":       {five, []setup{listing(five), nil, listing(five), func(m *scripts.Marker) { m.Claimed, m.Members, m.Generation = true, five, 8 }, listing(five)}, nil, rounds(one("b", "d"))},
		"two of five are, one is gone":    {five, []setup{listing(five), nil, listing(five), absent, nil}, nil, nil},
		"two of four are, one is gone":    {abcd, []setup{listing(abcd), nil, listing(abcd), absent}, nil, nil},
		// What a master accepted before, but no longer shows, does not count.
		"one is marked, one blank, one gone": {abc, []setup{marked, nil, absent}, nil, nil},

		// The client's list may be the next one.
		"the next of most":             {abc, []setup{func(m *scripts.Marker) { m.Members, m.Next = abcd, abc }, nil, func(m *scripts.Marker) { m.Members, m.Next = abcd, abc }}, nil, rounds(one("b"))},
		"before the change, most stay": {abc, []setup{becoming(abcd), nil, becoming(abcd)}, nil, rounds(one("b"))},
	} {
		t.Run(what, func(t *testing.T) {
			world, client := newClusterOf(t, c.masters...), clientOf(c.list)
			if c.client != nil {
				c.client(&client)
			}
			views := world.views(c.list)
			got := world.found(client, views)
			testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(c.want), "it marks")
			for _, round := range c.want[min(len(c.want), 1):] { // all that were marked accepted it
				for _, name := range round {
					testkit.Equal(t, world.look(name).Relation(c.list), membership.Accepts, name)
				}
			}
		})
	}
}

// A mark is written only over the marker that was seen: of two clients with one list that mark at
// once, the second finds what the first has written, and goes on from there.
func TestTwoClientsWithOneList(t *testing.T) {
	c, first, second := newCluster(t, "a", "b", "c"), clientOf(abc), clientOf(abc)
	seen, seenToo := c.views(abc), c.views(abc)
	c.write(abc, first.Plan(seen), seen)
	c.write(abc, first.Plan(seen), seen)
	c.found(second, seenToo)
	before := c.look("a").Text
	c.found(first, seen)
	testkit.Equal(t, len(c.accepts(abc)), 3, "masters that accept them")
	testkit.Equal(t, c.look("a").Text, before, "the marker of a")
}

// The lists that a blank master gets.
func TestTheMarkerThatABlankMasterGets(t *testing.T) {
	generation := func(g uint64, next *scripts.List) setup {
		return func(m *scripts.Marker) { m.Generation, m.Next, m.Change = g, next, start+time.Hour+time.Duration(g) }
	}
	type lists struct {
		generation    uint64
		members, next *scripts.List
	}
	for what, c := range map[string]struct {
		masters []setup // b is blank
		want    lists
	}{
		"a new deployment":       {[]setup{nil, nil, nil}, lists{1, abc, none}},
		"of the one that is":     {[]setup{marked, nil, nil}, lists{7, abc, none}},
		"of the others":          {[]setup{marked, nil, marked}, lists{7, abc, none}},
		"of a claimed one":       {[]setup{claimed, nil, nil}, lists{7, abc, none}},
		"of one that came back":  {[]setup{func(m *scripts.Marker) { m.Run, m.Generation = "x", 9 }, nil, marked}, lists{9, abc, none}},
		"the highest generation": {[]setup{generation(8, none), nil, generation(9, none)}, lists{9, abc, none}},
		"in any order":           {[]setup{generation(9, none), nil, generation(8, none)}, lists{9, abc, none}},
		"a change is under way":  {[]setup{generation(8, abcd), nil, generation(8, abcd)}, lists{8, abc, none}},
		"a change, on one":       {[]setup{generation(8, abcd), nil, generation(8, none)}, lists{8, abc, none}},
		"a change that is over":  {[]setup{generation(8, abcd), nil, generation(9, none)}, lists{9, abc, none}},
		"the client's is next": {[]setup{func(m *scripts.Marker) { m.Members, m.Next = abcd, abc }, nil, func(m *scripts.Marker) { m.Members, m.Next = abcd, abc }},
			lists{7, abcd, none}},
	} {
		t.Run(what, func(t *testing.T) {
			world, client := newClusterOf(t, c.masters...), clientOf(abc)
			world.found(client, world.views(abc))
			got := world.look("b").Marker()
			testkit.Check(t, got.Generation == c.want.generation && got.Members.Equal(c.want.members) &&
				got.Next.Equal(c.want.next) && !got.Claimed,
				"%q, want generation %d, %v, %v", got, c.want.generation, c.want.members, c.want.next)
			wait := got.Change - start // by its own clock, not by another's
			testkit.Check(t, wait >= maxLease && wait <= 2*maxLease, "the members may change %v from the start", wait)
			testkit.Equal(t, got.Process, world.masters["b"].process, "whose marker it is")
		})
	}
}

// From when on a master that was blank grants.
func TestAdmission(t *testing.T) {
	put := func(change setup) func(*cluster) { return func(c *cluster) { c.put("a", change) } }
	wordBefore := func(ago time.Duration) func(*cluster) {
		return put(func(m *scripts.Marker) { admitted(m); m.Admitted = start - ago })
	}
	const s = time.Second
	for what, c := range map[string]struct {
		before     func(*cluster)
		quarantine time.Duration // of the client
		want       time.Duration // left when it is marked
	}{
		"blank":                                   {func(*cluster) {}, maxLease, maxLease},
		"blank, without quarantine":               {func(*cluster) {}, 0, 0},
		"another process":                         {put(func(m *scripts.Marker) { m.Run, m.Members = "x", scripts.NewList("a") }), maxLease, maxLease},
		"another process, without quarantine":     {put(func(m *scripts.Marker) { m.Run, m.Admitted, m.Members = "x", start+time.Hour, scripts.NewList("a") }), 0, 0},
		"admitted now":                            {wordBefore(0), maxLease, 0},
		"admitted within the max lease":           {wordBefore(maxLease - s), maxLease, 0},
		"admitted a max lease ago":                {wordBefore(maxLease), maxLease, 0},
		"admitted too long ago":                   {wordBefore(maxLease + s), maxLease, maxLease},
		"admitted, and the clock was set back":    {wordBefore(-10 * s), maxLease, 10 * s},
		"admitted, and the clock was, by much":    {wordBefore(-time.Hour), maxLease, maxLease},
		"another process was admitted":            {put(func(m *scripts.Marker) { admitted(m); m.Run = "x" }), maxLease, maxLease},
		"marked, the clock set back":              {put(func(m *scripts.Marker) { m.Admitted, m.Members = start+time.Hour, scripts.NewList("a") }), maxLease, maxLease},
		"marked, the client wants no quarantine":  {put(func(m *scripts.Marker) { m.Admitted, m.Members = start+10*s, scripts.NewList("a") }), 0, 0},
		"marked, the quarantine is no longer":     {put(func(m *scripts.Marker) { m.Admitted, m.Members = start+maxLease, scripts.NewList("a") }), maxLease, maxLease},
		"marked, some of the quarantine is over":  {put(func(m *scripts.Marker) { m.Admitted, m.Members = start+10*s, scripts.NewList("a") }), maxLease, 10 * s},
		"marked, and admitted long ago":           {put(listing(scripts.NewList("a"))), maxLease, 0},
		"marked, admitted an hour ago":            {put(func(m *scripts.Marker) { m.Admitted, m.Members = start-time.Hour, scripts.NewList("a") }), maxLease, 0},
		"marked, another client has another list": {put(func(m *scripts.Marker) { m.Admitted = start + time.Hour }), 0, time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			world, client := newCluster(t, "a"), clientOf(scripts.NewList("a"))
			client.Quarantine = func(int) time.Duration { return c.quarantine }
			c.before(world)
			world.settle(client, world.views(client.List))
			a := world.look("a")
			testkit.Check(t, a.Quarantine() == c.want && a.IsMarked(),
				"in quarantine for %v, want %v; marked %v", a.Quarantine(), c.want, a.IsMarked())
		})
	}
}

// Each node has its own quarantine, and the rules hold for a master that joins others, too.
func TestAdmissionOfOneOfMany(t *testing.T) {
	c := newClusterOf(t, marked, nil, func(m *scripts.Marker) { m.Admitted = start + time.Hour })
	client := clientOf(abc)
	client.Quarantine = func(i int) time.Duration { return time.Duration(i) * time.Second }
	if got := c.settle(client, c.views(abc)); fmt.Sprint(got) != "[[c] [b]]" { // what is too long is corrected first
		t.Errorf("marked %q", got)
	}
	for i, name := range abc.Names() {
		testkit.Equal(t, c.look(name).Quarantine(), time.Duration(i)*time.Second, name)
	}
	m := c.look("c").Marker()
	testkit.Check(t, m.Generation == 7 && m.Members.Equal(abc), "corrected, the marker is %q", m)
}

// What an operator's word writes.
func TestAdmit(t *testing.T) {
	soon := start + time.Minute
	for what, c := range map[string]struct {
		before     setup
		list       *scripts.List
		members    *scripts.List
		next       *scripts.List
		generation uint64
		change     time.Duration
		claimed    bool
	}{
		"blank":                     {nil, nil, none, none, 0, 0, false},
		"blank, with a list":        {nil, abc, abc, none, 1, start + maxLease, false},
		"of another process":        {func(m *scripts.Marker) { m.Run = "x" }, nil, none, none, 0, 0, false},
		"admitted before":           {admitted, nil, none, none, 0, 0, false},
		"marked":                    {func(m *scripts.Marker) { m.Change = soon }, nil, abc, none, 7, soon, false},
		"in a change":               {func(m *scripts.Marker) { m.Next, m.Change = abcd, soon }, nil, abc, abcd, 7, soon, false},
		"claimed":                   {claimed, nil, abc, none, 7, 0, true},
		"the list that it has":      {func(m *scripts.Marker) { m.Change = soon }, abc, abc, none, 7, soon, false},
		"not the list that is next": {func(m *scripts.Marker) { m.Next, m.Change = abcd, soon }, abc, abc, none, 8, start + maxLease, false},
		"another list":              {func(m *scripts.Marker) { m.Members, m.Next, m.Change = abcd, five, soon }, abc, abc, none, 8, start + maxLease, false},
		"the next list":             {becoming(abcd), abcd, abcd, none, 8, start + maxLease, false},
		"claimed for the list":      {claimed, abc, abc, none, 8, start + maxLease, false},
		"claimed for another":       {func(m *scripts.Marker) { claimed(m); m.Members = abd }, abc, abc, none, 8, start + maxLease, false},
		"another max lease":         {func(m *scripts.Marker) { m.MaxLease = time.Hour }, nil, abc, none, 7, 0, false},
		"another member, by a list": {func(m *scripts.Marker) { m.Member = "b" }, abc, abc, none, 7, 0, false},
		"admitted by another name":  {func(m *scripts.Marker) { admitted(m); m.Member = "b" }, nil, none, none, 0, 0, false},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, c.before)
			call, err := change.Admit(world.look("a"), c.list)
			testkit.Must(t, err)
			if !world.run("a", call).Mark.Written {
				t.Fatal("not written")
			}
			got := world.look("a")
			m := got.Marker()
			want := scripts.Marker{Process: ofA, Admitted: start, Claimed: c.claimed, Generation: c.generation, Change: c.change, Members: c.members, Next: c.next}
			testkit.Equal(t, m.String(), want.String(), "the marker")
		})
	}
}

// A master that its clients know by another name is not admitted by a wrong one: no client's list would
// accept it.
func TestAdmitByAWrongName(t *testing.T) {
	c := newClusterOf(t, func(m *scripts.Marker) { m.Member = "b" })
	const want = "the lists of masters differ: this master is the member b of {a, b, c}: admit it by that name (?name=... in the URL)"
	_, err := change.Admit(c.look("a"), nil)
	testkit.Check(t, err != nil && err.Error() == want, "%v, want %s", err, want)
}

// The view after a mark has the master's clock at that mark.
func TestAViewAfterAMark(t *testing.T) {
	c, client := newCluster(t, "a"), clientOf(scripts.NewList("a"))
	views := c.views(client.List)
	c.pass(5 * time.Second)
	c.settle(client, views)
	testkit.Equal(t, views[0].Quarantine(), maxLease, "the quarantine")
	testkit.Equal(t, views[0].Now, start+5*time.Second, "the time")
}
