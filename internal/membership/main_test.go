package membership_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	maxLease = 30 * time.Second
	start    = 1700000000 * time.Second // by the masters' clock, since 1970
)

var (
	none  = scripts.NewList()
	abc   = scripts.NewList("a", "b", "c")
	abd   = scripts.NewList("a", "b", "d")
	abcd  = scripts.NewList("a", "b", "c", "d")
	five  = scripts.NewList("a", "b", "c", "d", "e")
	onlyA = scripts.NewList("a")
)

// cluster is masters, each by its member's name, which the clients of a test look at and mark.
type cluster struct {
	t       *testing.T
	passed  atomic.Int64 // since start
	masters map[string]*master
}

type master struct {
	process scripts.Process
	conn    redis.Conn
}

func newCluster(t *testing.T, names ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, masters: map[string]*master{}}
	for i, name := range names {
		fake := fakeredis.New(func() time.Time { return time.Unix(0, int64(start)+c.passed.Load()) }, uint64(i))
		m := &master{scripts.Process{Run: "run-" + name, MaxLease: maxLease, Member: name}, testkit.Pipe(fake.Serve)}
		t.Cleanup(func() { m.conn.Close(); fake.Stop() })
		c.masters[name] = m
	}
	return c
}

func (c *cluster) pass(d time.Duration) { c.passed.Add(int64(d)) }

func (c *cluster) now() time.Duration { return start + time.Duration(c.passed.Load()) }

func (c *cluster) do(name, command string, args ...any) any {
	c.t.Helper()
	reply, err := c.masters[name].conn.Do(command, args...)
	if err != nil {
		c.t.Fatalf("%s on %s: %v", command, name, err)
	}
	return reply
}

// run runs a script on a master.
func (c *cluster) run(name string, call scripts.Call) scripts.Reply {
	c.t.Helper()
	command, args := call.Command(nil, true, scripts.ConnArgs{Process: c.masters[name].process.String()})
	reply, err := call.Parse(c.do(name, command, args...))
	testkit.Must(c.t, err)
	return reply
}

// put gives a master a marker of its own process, changed as the test wants it.
func (c *cluster) put(name string, change func(*scripts.Marker)) {
	c.t.Helper()
	m := scripts.Marker{Process: c.masters[name].process, Generation: 7, Members: abc, Next: none}
	change(&m)
	c.do(name, "SET", scripts.MarkerKey, m.String())
}

// marked is a change for put: none.
func marked(*scripts.Marker) {}

func (c *cluster) look(name string) *membership.View {
	c.t.Helper()
	return membership.Read(*c.run(name, scripts.Look()).Look, 0)
}

// views looks at the masters of a list; a name that is no master's does not answer.
func (c *cluster) views(list *scripts.List) (views []*membership.View) {
	c.t.Helper()
	for _, name := range list.Names() {
		if c.masters[name] == nil {
			views = append(views, nil)
		} else {
			views = append(views, c.look(name))
		}
	}
	return views
}

// write writes the marks of one plan, and returns the names of the masters that got one. The views
// are those afterwards.
func (c *cluster) write(list *scripts.List, marks []membership.Mark, views []*membership.View) (names []string) {
	c.t.Helper()
	for _, mark := range marks {
		name := list.Names()[mark.Node]
		names = append(names, name)
		views[mark.Node] = views[mark.Node].Wrote(*c.run(name, mark.Call).Mark)
	}
	return names
}

// settle has a client mark what it may, as a locker does. It returns the masters that got a mark, in
// order, one slice for each plan.
func (c *cluster) settle(client membership.Client, views []*membership.View) (rounds [][]string) {
	c.t.Helper()
	for {
		marks := client.Plan(views)
		if len(marks) == 0 {
			return rounds
		}
		before := slices.Clone(views)
		rounds = append(rounds, c.write(client.List, marks, views))
		if slices.EqualFunc(before, views, func(a, b *membership.View) bool { return a == nil || a.Text == b.Text }) {
			return rounds // the looks are too old
		}
		if len(rounds) > 20 {
			c.t.Fatalf("the plans do not end: %q", rounds)
		}
	}
}

// found is settle of a client that looks again when the quarantines of its claims are over.
func (c *cluster) found(client membership.Client, views []*membership.View) (rounds [][]string) {
	c.t.Helper()
	rounds = c.settle(client, views)
	if waits := membership.ClaimWaits(views, client.List); waits > 0 {
		c.pass(waits)
		copy(views, c.views(client.List))
		rounds = append(rounds, c.settle(client, views)...)
	}
	return rounds
}

// accepts returns the masters that accept clients with a list.
func (c *cluster) accepts(list *scripts.List) (names []string) {
	c.t.Helper()
	for name := range c.masters {
		if list.Has(name) && c.look(name).Relation(list) == membership.Accepts {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// clientOf returns a client with a list that founds deployments, with quarantine.
func clientOf(list *scripts.List) membership.Client {
	return membership.Client{List: list, Found: true, Quarantine: func(int) time.Duration { return maxLease }}
}
