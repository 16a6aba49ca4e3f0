package quorumchaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/internal/masters"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/failover"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// A new fault is a method here, and one of [masters.Master] if a command to the server is not enough. Random, and the
// walks of integration/chaos, draw it if it is in schedules; one of a group of clients if it is in Apart. TestFaults
// and the table in docs/chaos-tests.md have a line for each. The log, the judge's timeline and pictures have it from its
// name and state.

// state is what a master, or a path to it, is in, for people: a fault names the state that it needs.
type state string

const (
	up       state = "up"
	killed   state = "dead"
	frozen   state = "frozen"
	cutOff   state = "cut off"
	isolated state = "isolated"
	deaf     state = "requests lost"
	mute     state = "replies lost"
	slow     state = "slow"
	isAny    state = "" // of a fault that needs none
)

// pictured is how pictures show a state.
var pictured = map[state]timeline.State{killed: timeline.Down, frozen: timeline.Down, cutOff: timeline.Down,
	isolated: timeline.Hindered, deaf: timeline.Hindered, mute: timeline.Hindered, slow: timeline.Hindered}

// Kill ends masters as a crash does; their disks stay. Masters count from 0. Of a master with replicas Kill ends the
// primary, and a replica is promoted within 2 s or so.
func (c *Cluster) Kill(i ...int) { c.fault("Kill", i, up, killed, masters.Master.Kill) }

// Restart starts killed masters again, with their disks. Sentinels make a former primary a replica if they have
// promoted another one.
func (c *Cluster) Restart(i ...int) { c.fault("Restart", i, killed, up, masters.Master.Start) }

// RestartEmpty starts killed masters again, with empty disks.
func (c *Cluster) RestartEmpty(i ...int) {
	c.fault("RestartEmpty", i, killed, up, masters.Master.Replace)
}

// Freeze halts masters: connections and bytes are accepted for them, and nothing answers.
func (c *Cluster) Freeze(i ...int) { c.fault("Freeze", i, up, frozen, masters.Master.Freeze) }

// Thaw continues frozen masters. They then do what they were asked meanwhile.
func (c *Cluster) Thaw(i ...int) { c.fault("Thaw", i, frozen, up, masters.Master.Thaw) }

// Partition cuts masters off from all clients, or from those of the group, if the Cluster is [Cluster.Apart]'s.
func (c *Cluster) Partition(i ...int) {
	if c.group.relays != nil {
		c.onPath("Partition", i, cutOff, (*forward.Forward).Lose)
		return
	}
	c.fault("Partition", i, up, cutOff, masters.Master.Disconnect)
}

// Heal ends Partition. For a group of clients ([Cluster.Apart]) it also ends LoseReplies, LoseRequests and Slow.
func (c *Cluster) Heal(i ...int) {
	if c.group.relays != nil {
		c.onPath("Heal", i, up, (*forward.Forward).Heal)
		return
	}
	c.fault("Heal", i, cutOff, up, masters.Master.Reconnect)
}

// Flush deletes everything that masters have.
func (c *Cluster) Flush(i ...int) {
	c.fault("Flush", i, up, up, func(m masters.Master) error { _, err := m.Do("FLUSHALL"); return err })
}

// Replace ends masters for good, whatever their state. Empty ones take their places, at their addresses.
func (c *Cluster) Replace(i ...int) { c.fault("Replace", i, isAny, up, masters.Master.Replace) }

// Step sets the wall clocks of masters ahead of this machine's, or behind it; with 0 they are right again. The leases that
// they have granted end at once, or live longer. It needs [Setup].Clocks.
func (c *Cluster) Step(ahead time.Duration, i ...int) {
	c.play("Step", i, up, up, func(i int) error {
		m, ok := c.masters[i].(*masters.Steppable)
		if !ok {
			return errors.New("it needs Setup.Clocks")
		}
		if c.notes.Ends(c.names[i], stepped); ahead != 0 {
			c.notes.Begins(c.names[i], timeline.Hindered, stepped)
		}
		return m.Step(ahead)
	})
}

const stepped = "another time"

// Isolate cuts the primaries of masters with replicas off from their replicas and from the Sentinels, which promote a
// replica. Clients still reach the primaries.
func (c *Cluster) Isolate(i ...int) {
	c.failover("Isolate", i, up, isolated, (*failover.Master).IsolatePrimary)
}

// Join ends Isolate. What was held back arrives, and the Sentinels make the former primary a replica.
func (c *Cluster) Join(i ...int) {
	c.failover("Join", i, isolated, up, (*failover.Master).JoinAgain)
}

func (c *Cluster) failover(what string, hit []int, from, to state, do func(*failover.Master) error) {
	c.tb.Helper()
	if len(c.inside().Groups) == 0 {
		c.tb.Fatalf("quorumchaos: %s%s: the masters have no replicas", what, arguments(hit))
	}
	c.play(what, hit, from, to, func(i int) error { return do(c.inside().Groups[i]) })
}

func (c *Cluster) fault(what string, hit []int, from, to state, do func(masters.Master) error) {
	c.tb.Helper()
	c.play(what, hit, from, to, func(i int) error { return do(c.masters[i]) })
}

func (c *Cluster) play(what string, hit []int, from, to state, do func(int) error) {
	c.tb.Helper()
	c.check(what, hit)
	for _, i := range hit {
		// Another primary takes the place of one that is hit.
		if is := c.states[i]; is != from && from != isAny && c.inside().Groups == nil {
			c.tb.Fatalf("quorumchaos: %s(%d): the master is %s, not %s", what, i, is, from)
		}
		c.note(what, i, c.names[i], to)
	}
	if err := c.each(hit, do); err != nil {
		c.tb.Fatalf("quorumchaos: %s%s: %v", what, arguments(hit), err)
	}
	for _, i := range hit {
		if c.states[i] = to; to == up {
			c.notes.Ends(c.names[i], string(from))
		}
	}
}

func (c *Cluster) check(what string, hit []int) {
	c.tb.Helper()
	for k, i := range hit {
		if i < 0 || i >= len(c.masters) || slices.Contains(hit[:k], i) {
			c.tb.Fatalf("quorumchaos: %s%s: the masters are 0 to %d, each given once", what, arguments(hit), len(c.masters)-1)
		}
	}
	if len(hit) == 0 {
		c.tb.Fatalf("quorumchaos: %s(): no master is given", what)
	}
}

func arguments(hit []int) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(hit), " ", ", "), "[]") + ")"
}

// note notes a fault where tests and people look for it.
func (c *Cluster) note(what string, i int, row string, to state) {
	c.tb.Helper()
	text := fmt.Sprintf("%s(%d)", what, i)
	if c.group.relays != nil && row != c.names[i] {
		text = c.group.name + ": " + text
	}
	c.notes.Happened(c.names[i], what, "%s", text)
	if to != up {
		c.notes.Begins(row, pictured[to], string(to))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deployment.judge != nil {
		c.deployment.judge.Note("%s", text)
	}
}

// schedules is what Random draws from. Those that forget hit a minority at a time.
func (c *Cluster) schedules() []backstage.Fault {
	return []backstage.Fault{
		{Begin: c.Freeze, End: c.Thaw}, {Begin: c.Partition, End: c.Heal},
		{Begin: c.Kill, End: c.Restart, Quarantine: 1.25}, {Begin: c.Kill, End: c.RestartEmpty, Quarantine: 1.25},
		{Begin: c.Flush, Quarantine: 1.25}, {Begin: c.Replace, Quarantine: 1.25},
	}
}

// Random plays faults one after another, for about d, and returns with all masters up. A seed makes one
// schedule; 0 draws a seed. The log and the failure name it. Any number of masters freeze or are cut off, for up
// to one and a half max leases, so locks are lost. A minority is killed, flushed or replaced, and then Random waits
// for more than a max lease. So no fault breaks what the guarantees rest on.
func (c *Cluster) Random(d time.Duration, seed uint64) {
	c.tb.Helper()
	if seed == 0 {
		seed = rand.Uint64N(1e9) + 1
	}
	c.random += fmt.Sprintf(" Random(%v, %d)", d, seed)
	c.tb.Logf("quorumchaos:%s", c.random)
	rng, planned := rand.New(rand.NewPCG(seed, 0)), time.Duration(0)
	pass := func(leases float64) {
		wait := time.Duration((leases + rng.Float64()) * float64(c.maxLease))
		planned += wait
		time.Sleep(wait)
	}
	for schedules := c.schedules(); planned < d; {
		s, most := schedules[rng.IntN(len(schedules))], len(c.masters)
		if s.Quarantine > 0 {
			most = (most - 1) / 2
		}
		hit := rng.Perm(len(c.masters))[:min(most, 1+rng.IntN(len(c.masters)))]
		if len(hit) > 0 { // one or two masters have no minority
			s.Begin(hit...)
		}
		if pass(0.5); len(hit) > 0 && s.End != nil {
			s.End(hit...)
		}
		pass(s.Quarantine)
	}
}
