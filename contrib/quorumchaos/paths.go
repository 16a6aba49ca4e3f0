package quorumchaos

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/forward"
)

// group is a group of clients, whose paths to the masters are relays.
type group struct {
	name   string // "" for all clients
	relays []*forward.Forward
}

// Apart returns the same masters with URLs of their own for one group of clients. On the Cluster that it returns,
// Partition, LoseReplies, LoseRequests and Slow, and the Heal that ends them, act between this group and the masters.
// All other faults act on the masters, for all clients.
func (c *Cluster) Apart(name string) *Cluster {
	c.tb.Helper()
	g := &Cluster{deployment: c.deployment, group: group{name: name}}
	for i, m := range c.masters {
		relay, err := forward.New(m.Addr())
		c.must(err)
		c.tb.Cleanup(relay.Close)
		g.group.relays = append(g.group.relays, relay)
		g.urls = append(g.urls, c.named("redis://"+relay.Addr(), i))
	}
	in := *c.inside()
	in.Relays, in.Faults = g.group.relays, []backstage.Fault{
		{Begin: g.Partition, End: g.Heal}, {Begin: g.LoseReplies, End: g.Heal}, {Begin: g.LoseRequests, End: g.Heal},
		{Begin: func(i ...int) { g.Slow(100*time.Millisecond, 80*time.Millisecond, i...) }, End: g.Heal},
	}
	g.lend(in)
	return g
}

// LoseReplies loses what masters say to the group ([Cluster.Apart], which this fault needs): they do what it asks. Heal
// ends it.
func (c *Cluster) LoseReplies(i ...int) {
	c.onPath("LoseReplies", i, mute, (*forward.Forward).LoseReplies)
}

// LoseRequests loses what the group ([Cluster.Apart]) asks masters. Heal ends it.
func (c *Cluster) LoseRequests(i ...int) {
	c.onPath("LoseRequests", i, deaf, (*forward.Forward).LoseRequests)
}

// Slow delays what the group ([Cluster.Apart]) asks masters, by latency give or take jitter. Heal ends it.
func (c *Cluster) Slow(latency, jitter time.Duration, i ...int) {
	c.onPath("Slow", i, slow, func(f *forward.Forward) { f.DelayRequests(latency, jitter) })
}

func (c *Cluster) onPath(what string, hit []int, to state, do func(*forward.Forward)) {
	c.tb.Helper()
	if c.check(what, hit); c.group.relays == nil {
		c.tb.Fatalf("quorumchaos: %s%s: want a group of clients, from Apart", what, arguments(hit))
	}
	for _, i := range hit {
		row := c.names[i] + " ↔ " + c.group.name
		if c.note(what, i, row, to); to == up {
			c.notes.Ends(row, "")
		}
		do(c.group.relays[i])
	}
}
