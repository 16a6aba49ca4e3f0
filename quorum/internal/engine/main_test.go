package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delaying is a context that does something before another one is derived from it.
type delaying struct {
	context.Context
	delay func()
}

func (d delaying) Done() <-chan struct{} {
	d.delay()
	return d.Context.Done()
}

// silent ignores all Events.
type silent struct{}

func (silent) Ending(*Hold, Ending) error    { return errEnded }
func (silent) Lost(*Hold, error)             {}
func (silent) Renewing(*Hold, time.Duration) {}
func (silent) Renewed(int, Renewals)         {}
func (silent) Repaired(*Hold, int, error)    {}

// heeding records Events.
type heeding struct {
	silent
	ending, lost, renewing int
	renewed                []Renewals
}

func (e *heeding) Ending(h *Hold, why Ending) error { e.ending++; return e.silent.Ending(h, why) }

func (e *heeding) Lost(*Hold, error) { e.lost++ }

func (e *heeding) Renewing(*Hold, time.Duration) { e.renewing++ }

func (e *heeding) Renewed(_ int, r Renewals) { e.renewed = append(e.renewed, r) }

var errEnded = errors.New("ended")

// terms are for a lock over two of three nodes.
func terms(lasts time.Duration) *Terms {
	return &Terms{Terms: lease.Terms{Quorum: quorate.Majority(3), Lease: lasts}, Millis: scripts.ToMillis(lasts), Events: silent{}}
}

func (e *Engine) newHold(t *Terms, names ...string) *Hold {
	h := new(Hold)
	h.Init(e, t, scripts.NewNames(nil, names), nil, context.Background())
	h.list = e.Roster.List()
	h.first.makeContext(h.parent)
	return h
}

// handleDue handles the hold as if it were due. after is left to do, as with schedule.Due.
func (h *Hold) handleDue() (after func()) {
	return h.engine.renewDue(h.engine.Clock.Now(), []*schedule.Entry[*Hold]{&h.entry})
}

func (l *Handle) hasEnded() bool { return l.ctx.Err() != nil }

// cluster is three masters in memory, and an engine on them.
type cluster struct {
	*Engine
	world *world.World
}

// inCluster runs a test in a bubble. The engine has that clock, or the bubble's for nil.
func inCluster(t *testing.T, ticking clock.Clock, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{world: world.New(t, 3)}
		if ticking == nil {
			ticking = c.world.Clock
		}
		nodes := c.world.NewProcess().Nodes(node.WithoutQuarantine())
		c.Engine = New(Config{Nodes: nodes, Quorum: quorate.Majority(3), Clock: ticking, UUID: "test", Founds: true})
		<-c.Roster.Survey()
		synctest.Wait()
		t.Cleanup(func() {
			if !c.IsClosed() {
				c.Close()
			}
			<-c.Idle()
		})
		test(t, c)
	})
}

// won is an attempt that all masters have granted, before it is committed.
func (c *cluster) won(t *testing.T) *attempt {
	t.Helper()
	a := newAttempt(c.newHold(terms(10*time.Second), "a"), -1)
	a.ask(waiting.AskAll)
	<-a.decided
	synctest.Wait()
	testkit.Require(t, a.hold.lease.IsSettled(), "the attempt is not won")
	return a
}

func (c *cluster) lock(t *testing.T) *Hold {
	t.Helper()
	h := c.newHold(terms(10*time.Second), "a")
	acquired, o := h.Attempt(t.Context(), -1, waiting.AskAll, false)
	testkit.Require(t, acquired, "not acquired: %+v", o)
	synctest.Wait()
	return h
}

// wantNoOwners wants no master to have a lock.
func (c *cluster) wantNoOwners(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for i, m := range c.world.Masters {
		testkit.Check(t, !slices.Contains(m.Keys(), "a"), "master %d has an owner", i)
	}
}

// held returns a hold that these processes have granted, which has become a lock at this time.
func (e *Engine) held(t *testing.T, terms *Terms, processes ...string) *Hold {
	t.Helper()
	h := e.newHold(terms, "a")
	asks := h.lease.Begin(e.Clock.Now(), lease.Plan{}, nil)
	for i, process := range processes {
		h.lease.TakeReply(e.Clock.Now(), asks[i], lease.Reply{Is: lease.Granted, Process: process}, nil)
	}
	testkit.Require(t, h.holdUnlessLate(), "it is not held")
	return h
}

// heldHold returns an attempt that two of three nodes have granted and the third has not answered,
// and that has become a lock, and the clock, which stands still.
func heldHold(t *testing.T, lasts time.Duration) (*attempt, *fakeclock.Clock) {
	t.Helper()
	a, fake := asking(t, lasts)
	a.requests[0].Done(granting("one", 7))
	a.requests[1].Done(granting("two", 7))
	testkit.Require(t, a.hold.holdUnlessLate(), "it is not held")
	return a, fake
}

// asking returns an attempt that has asked three nodes, which have not answered.
func asking(t *testing.T, lasts time.Duration) (*attempt, *fakeclock.Clock) {
	t.Helper()
	fake := fakeclock.New()
	fake.Advance(time.Hour)
	nodes := make([]*node.Node, 3)
	for i := range nodes {
		n, err := node.Open("redis://127.0.0.1:1", node.WithName(string(rune('a'+i)))) // never used
		testkit.Must(t, err)
		t.Cleanup(func() { n.Close() })
		nodes[i] = n
	}
	e := New(Config{Nodes: nodes, Quorum: quorate.Majority(3), Clock: fake, UUID: "test", Founds: true})
	e.Roster.Resolve()
	a := newAttempt(e.newHold(terms(lasts), "a"), -1)
	for _, ask := range a.hold.lease.Begin(fake.Now(), lease.Plan{}, nil) {
		a.requests[ask.Master].command = ask
	}
	return a, fake
}
