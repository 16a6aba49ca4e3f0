package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// inOrder returns the nodes in the order an attempt at the name "a" asks them.
func inOrder(l *Locker) [3]int {
	first := firstNode(l, "a")
	return [3]int{first, (first + 1) % 3, (first + 2) % 3}
}

// A name that another owner holds on the probe node is held: no other node is asked, also not later.
func TestARefusalByTheProbeNodeAsksNoOtherNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		order := inOrder(l)
		c.rivalHas(l.With(WithLease(5*time.Second)), order[0])
		c.notAsked(order[1])
		c.notAsked(order[2])
		call, r := l.attempts(t.Context(), waiting.ProbeFirst, "a")
		time.Sleep(2 * waiting.MaxStep)
		testkit.Check(t, call.err != nil && r.Held && call.err.Refused == 1 && call.err.Unknown == 2 && strings.Contains(call.err.Error(), "1 refused, 2 not asked"), "%+v", r)
		c.before(order[1], func() {})
		c.before(order[2], func() {})
	})
}

// The rtt takes the answers of a sample of the attempts that ask all nodes, and of probe nodes, but not
// of nodes that are asked after another one.
func TestWhichAnswersTheRTTTakes(t *testing.T) {
	const answer = 100 * time.Microsecond // the time of one, in this test
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		order := inOrder(l)
		c.delay(answer)
		sampled := false
		takes := func(what string, approach waiting.Approach, first, second, last time.Duration) {
			t.Helper()
			l.engine.RTT = waiting.NewRTT(3)
			if sampled {
				l.engine.RTT.Samples(l.engine.Clock.Now().Add(time.Hour))
			}
			call, _ := l.attempts(t.Context(), approach, "a")
			time.Sleep(2 * waiting.MaxStep)
			for k, want := range []time.Duration{first, second, last} {
				got := l.engine.RTT.Mean(order[k])
				testkit.Check(t, got == want, "%s: node %d of the order: %v, want %v", what, k, got, want)
			}
			if call.lock != nil {
				c.unlock(call.lock)
			}
			synctest.Wait()
		}
		takes("a probe, and the others", waiting.ProbeFirst, answer, 0, 0)
		takes("a sample", waiting.AskAll, answer, answer, answer)
		sampled = true
		takes("none", waiting.AskAll, 0, 0, 0)
		takes("a probe", waiting.ProbeFirst, answer, 0, 0)
		c.rivalHas(l, order[0])
		takes("a probe that is refused", waiting.ProbeFirst, answer, 0, 0)
		c.Masters[order[0]].Crash(fakeredis.Everything)
		takes("one that replaces the probe node", waiting.ProbeFirst, 0, 0, 0)
	})
}

// A probe node that does not answer delays the attempt by no more than two steps.
func TestProbeNodeThatIsFrozen(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		frozen := make(chan struct{})
		defer close(frozen)
		c.before(inOrder(l)[0], func() { <-frozen })
		began := time.Now()
		call, _ := l.attempts(t.Context(), waiting.ProbeFirst, "a")
		testkit.Require(t, call.lock != nil, "%v", call.err)
		wantTook(t, began, 0, 2*waiting.MaxStep)
		c.unlock(call.lock)
	})
}

// An attempt whose context ends while it probes asks no other node.
func TestNoOtherNodeIsAskedOnceTheContextHasEnded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		frozen := make(chan struct{})
		c.before(inOrder(l)[0], func() { <-frozen })
		calls := c.calls()
		ctx := testkit.Within(t, waiting.MinStep)
		call, _ := l.attempts(ctx, waiting.ProbeFirst, "a")
		testkit.Check(t, call.lock == nil, "it has the lock")
		synctest.Wait()
		testkit.Equal(t, c.calls()-calls, 1, "nodes that were asked, the probe node among them")
		close(frozen)
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// If no node takes the later requests, the attempt ends. It does not wait for the frozen node.
func TestOthersThatFailAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		order := inOrder(l)
		frozen := make(chan struct{})
		c.before(order[0], func() { <-frozen })
		time.AfterFunc(waiting.MinStep, func() {
			for _, i := range []int{order[1], order[2]} {
				c.Masters[i].Crash(fakeredis.Everything)
				inside.Of(l.engine.Nodes[i]).Pipe("a").Do(context.Background(), scripts.Look())
			}
		})
		began := time.Now()
		call, r := l.attempts(t.Context(), waiting.ProbeFirst, "a")
		testkit.Require(t, call.err != nil && errors.Is(call.err, ErrUnavailable), "%+v", r)
		wantTook(t, began, 0, 2*waiting.MinStep+engine.Grace)
		close(frozen)
		synctest.Wait()
	})
}

// firstNode returns the node that attempts at the names ask first.
func firstNode(l *Locker, names ...string) int {
	var all []scripts.Name
	for _, name := range names {
		all = append(all, scripts.NewName(name))
	}
	return l.engine.FirstNode(all)
}
