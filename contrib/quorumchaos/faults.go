package quorumchaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/internal/masters"
)

// A new fault is a method here, and one of [masters.Master] if a command to the server is not enough. Random draws it
// if it is in schedules. TestFaults and the table in docs/chaos-tests.md have a line for each.

// state is what a master is in, for people: a fault names the state that it needs.
type state string

const (
	up     state = "up"
	killed state = "killed"
	frozen state = "frozen"
	cutOff state = "cut off"
)

// Kill ends a master as a crash does; its disk stays. Masters count from 0.
func (c *Cluster) Kill(i int) { c.fault("Kill", i, up, killed, masters.Master.Kill) }

// Restart starts a killed master again, with its disk.
func (c *Cluster) Restart(i int) { c.fault("Restart", i, killed, up, masters.Master.Start) }

// RestartEmpty starts a killed master again, with an empty disk.
func (c *Cluster) RestartEmpty(i int) { c.fault("RestartEmpty", i, killed, up, masters.Master.Replace) }

// Freeze halts a master: connections and bytes are accepted for it, and nothing answers.
func (c *Cluster) Freeze(i int) { c.fault("Freeze", i, up, frozen, masters.Master.Freeze) }

// Thaw continues a frozen master. It then does what it was asked meanwhile.
func (c *Cluster) Thaw(i int) { c.fault("Thaw", i, frozen, up, masters.Master.Thaw) }

// Partition cuts a master off from all clients.
func (c *Cluster) Partition(i int) { c.fault("Partition", i, up, cutOff, masters.Master.Disconnect) }

// Heal ends Partition.
func (c *Cluster) Heal(i int) { c.fault("Heal", i, cutOff, up, masters.Master.Reconnect) }

// Flush deletes everything that a master has.
func (c *Cluster) Flush(i int) {
	c.fault("Flush", i, up, up, func(m masters.Master) error { _, err := m.Do("FLUSHALL"); return err })
}

// Replace ends a master for good, whatever its state. An empty one takes its place, at its address.
func (c *Cluster) Replace(i int) { c.fault("Replace", i, "", up, masters.Master.Replace) }

func (c *Cluster) fault(what string, i int, from, to state, do func(masters.Master) error) {
	c.tb.Helper()
	if i < 0 || i >= len(c.masters) {
		c.tb.Fatalf("quorumchaos: %s(%d): the masters are 0 to %d", what, i, len(c.masters)-1)
	}
	if is := c.states[i]; is != from && from != "" {
		c.tb.Fatalf("quorumchaos: %s(%d): the master is %s, not %s", what, i, is, from)
	}
	c.note(what, i)
	if err := do(c.masters[i]); err != nil {
		c.tb.Fatalf("quorumchaos: %s(%d): %v", what, i, err)
	}
	c.states[i] = to
}

// schedules is what Random draws from. Those that forget hit a minority at a time.
var schedules = []struct {
	begin, end func(*Cluster, int)
	quarantine float64 // at least so many max leases follow, if masters forget
}{
	{(*Cluster).Freeze, (*Cluster).Thaw, 0}, {(*Cluster).Partition, (*Cluster).Heal, 0},
	{(*Cluster).Kill, (*Cluster).Restart, 1.25}, {(*Cluster).Kill, (*Cluster).RestartEmpty, 1.25},
	{(*Cluster).Flush, nil, 1.25}, {(*Cluster).Replace, nil, 1.25},
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
	for planned < d {
		s, most := schedules[rng.IntN(len(schedules))], len(c.masters)
		if s.quarantine > 0 {
			most = (most - 1) / 2
		}
		hit := rng.Perm(len(c.masters))[:min(most, 1+rng.IntN(len(c.masters)))]
		for _, i := range hit {
			s.begin(c, i)
		}
		pass(0.5)
		for _, i := range hit {
			if s.end != nil {
				s.end(c, i)
			}
		}
		pass(s.quarantine)
	}
}
