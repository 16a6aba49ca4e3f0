package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// The clock is read last: whatever takes longer than the lease in a commit, the attempt is no lock then. Nor is one whose context
// has ended, though enough nodes have granted it, or whose engine closes, whose schedule no longer renews. It is undone.
func TestAttemptsThatAreWonAndNotCommitted(t *testing.T) {
	ticking := fakeclock.New()
	for what, c := range map[string]struct {
		clock   clock.Clock
		happens func(c *cluster, a *attempt, cancel func())
		want    func(o *Outcome) bool
	}{
		"it takes too long": {ticking, func(_ *cluster, a *attempt, _ func()) {
			a.hold.parent = delaying{a.hold.parent, func() { ticking.Advance(a.hold.terms.Lease) }}
		}, func(o *Outcome) bool { return o.Cause == lease.TooLate }},
		"the context has ended": {nil, func(_ *cluster, _ *attempt, cancel func()) { cancel() }, func(*Outcome) bool { return true }},
		"the engine is closed":  {nil, func(c *cluster, _ *attempt, _ func()) { c.Close() }, func(o *Outcome) bool { return o.Closed }},
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, c.clock, func(t *testing.T, in *cluster) {
				a := in.won(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.happens(in, a, cancel)
				testkit.Check(t, !a.commit(ctx), "it is a held lock")
				testkit.Check(t, !in.IsClosed() || a.hold.first.hasEnded(), "its context goes on")
				o := a.undo(t.Context(), waiting.AskAll)
				testkit.Check(t, c.want(o) && in.Held() == 0, "%+v, and %d locks are renewed", o, in.Held())
				in.wantNoOwners(t)
			})
		})
	}
}

// countingClock is a clock by which a second passes with every look at it.
type countingClock struct {
	clock.Clock
	mu  sync.Mutex
	now clock.Instant
}

func (c *countingClock) Now() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.now
}

// A grant counts from a look at the clock before anything was sent, however late that was.
func TestTheClockIsReadBeforeAnythingIsSent(t *testing.T) {
	for _, approach := range []waiting.Approach{waiting.AskAll, waiting.ProbeFirst} {
		t.Run(fmt.Sprint("approach ", approach), func(t *testing.T) {
			a, _ := heldHold(t, time.Hour)
			e := a.hold.engine
			counting := &countingClock{Clock: e.Clock, now: e.Clock.Now()}
			e.Clock = counting
			first := counting.now.Add(time.Second)
			a = newAttempt(e.newHold(a.hold.terms, "b"), -1)
			a.ask(approach)
			a.hold.mu.Lock()
			defer a.hold.mu.Unlock()
			testkit.Check(t, a.hold.lease.BegunAt() == first,
				"grants count from %v after the first look at the clock", a.hold.lease.BegunAt().Sub(first))
		})
	}
}

// What the lease learns from a renewal. A server that refuses to raise a reader has not renewed it:
// the reader's lease ends, and a writer may come. A node that refuses the list has not, either, and
// may have the key yet. An unknown answer is a failure: an attempt does not wait for another one.
func TestAnswersToRenewals(t *testing.T) {
	for letter, want := range map[scripts.Renewed]struct {
		is  lease.Answer
		err error
	}{
		scripts.Kept: {is: lease.Kept}, scripts.Gone: {is: lease.Gone}, scripts.Taken: {is: lease.Taken},
		scripts.NotRaised: {lease.NotRenewed, errReader}, scripts.NotRenewed: {lease.NotRenewed, node.ErrMaxLease},
		0: {lease.Failed, errUnknown},
	} {
		a, fake := heldHold(t, time.Second)
		said := scripts.Reply{Renew: []scripts.Renewed{letter}}
		if letter == scripts.NotRenewed {
			fake.Advance(time.Millisecond)
			said.NotAccepted = isRefused(t, a.hold.engine)
		}
		reply, err := a.hold.replyOf(lease.Command{Do: lease.Renew}, pipeline.Result{Reply: said}, 0)
		testkit.Check(t, reply.Is == want.is && errors.Is(err, want.err), "%c: answer %d, %v", letter, reply.Is, err)
		isNamed := strings.HasSuffix(fmt.Sprint(err), "(ZADD)")
		testkit.Check(t, isNamed == (letter == scripts.NotRaised), "%c: names the command: %v", letter, err)
	}
	a, _ := heldHold(t, time.Second)
	reply, err := a.hold.replyOf(lease.Command{Do: lease.Ask}, pipeline.Result{}, 0)
	testkit.Check(t, reply.Is == lease.Failed && errors.Is(err, errUnknown), "an acquire: answer %d, %v", reply.Is, err)
}

// A node that is claimed, and is no member yet, accepts nobody: it is quarantined, and no process says so.
func TestAClaimedNodeAcceptsNobody(t *testing.T) {
	for process, want := range map[string]bool{"": false, "one": true} {
		a, _ := asking(t, time.Second)
		isRefused(t, a.hold.engine)
		said := scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Quarantined}}
		a.hold.replyOf(lease.Command{Do: lease.Ask}, pipeline.Result{Reply: said, RunID: process}, 0)
		testkit.Equal(t, a.hold.engine.Roster.Accepts(0), want, process)
	}
}

// isRefused makes a node that refused the engine's list, at this time.
func isRefused(t *testing.T, e *Engine) *scripts.Seen {
	t.Helper()
	process := scripts.Process{Run: "one/0", MaxLease: time.Hour, Member: "a"}
	marker := scripts.Marker{Process: process, Members: scripts.NewList("a"), Next: scripts.NewList()}
	process.MaxLease = time.Minute
	refusal := &scripts.Seen{Process: process, Marker: marker.String()}
	err := e.Roster.RenewalRefused(0, refusal)
	testkit.Require(t, err != nil && !e.Roster.Accepts(0), "it is accepted: %v", err)
	return refusal
}

// A grant says nothing of a holder.
func TestOnlyRefusalsSayWhoHolds(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	testkit.Equal(t, a.requests[0].answer, nil, "a grant says")
}

// The error of a node that is down, and is not asked, is part of the outcome.
func TestNodesThatAreNotAskedSayWhy(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		c.world.Masters[1].Crash(fakeredis.Nothing)
		c.world.Masters[2].Crash(fakeredis.Nothing)
		for range 2 { // the first attempt finds it out
			acquired, o := c.newHold(terms(10*time.Second), "a").Attempt(t.Context(), -1, waiting.AskAll, false)
			synctest.Wait()
			testkit.Check(t, !acquired && o.Nodes[1].Err != nil && o.Nodes[2].Err != nil, "acquired: %v, %+v", acquired, o.Nodes)
		}
	})
}

// The lease learns from any reply that the request was resent: its first copy may be carried out late.
func TestTheLeaseLearnsThatARequestWasResent(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	for _, resent := range []bool{false, true} {
		for _, r := range []pipeline.Result{
			{Err: errors.New("broken"), Sent: true},
			{Reply: scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.HeldByAnother}}},
			{Reply: scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Quarantined}}},
		} {
			r.Resent = resent
			reply, _ := a.hold.replyOf(lease.Command{Do: lease.Ask}, r, 0)
			testkit.Check(t, reply.Resent == resent, "%+v: resent %v", r, reply.Resent)
		}
	}
}

// A tally has room for the receivers of five nodes, and makes the others'.
func TestATallyReceivesFromEachNode(t *testing.T) {
	tally, all := newTally(quorate.Majority(7), quorate.All(7).Nodes()), map[*releaseReply]bool{}
	for node := range 7 {
		all[tally.receiver(node)] = true
	}
	testkit.Check(t, len(all) == 7 && !all[nil], "%d receivers", len(all))
}

// A release counts as heard by the fewest connections that heard it on a node that had the lock.
func TestTallyCountsTheFewestThatHeard(t *testing.T) {
	for _, c := range []struct {
		replies []nodeReply
		want    int
	}{
		{nil, 0},
		{[]nodeReply{{counts: true, found: true, heard: 3}, {counts: true, found: true, heard: 2}}, 2},
		{[]nodeReply{{counts: true, found: true, heard: 3}, {counts: true, found: true}}, 0},
		{[]nodeReply{{counts: true}, {err: errors.New("down")}, {counts: true, found: true, heard: 3}}, 3},
		{[]nodeReply{{counts: true, found: true, heard: 2}, {counts: true, found: true, heard: 3}}, 2},
		{[]nodeReply{{found: true, err: errors.New("down")}, {counts: true, found: true, heard: 3}}, 3},
	} {
		tally := newTally(quorate.Majority(5), quorate.Majority(5).Nodes())
		errs := 0
		for i, r := range c.replies {
			if tally.add(i, r); r.err != nil {
				errs++
			}
		}
		failed := tally.Result().Failed
		testkit.Check(t, len(failed) == errs, "%+v: errors %v", c.replies, failed)
		testkit.Equal(t, tally.Result().Heard, c.want, c.replies)
	}
}

// The error of a reply names what was asked, and says what the node has done.
func TestErrorsOfRepliesSayWhatTheNodeHasDone(t *testing.T) {
	names := map[lease.Do]string{lease.Ask: "acquire", lease.Enter: "acquire", lease.Repair: "acquire",
		lease.Renew: "renew", lease.Extend: "renew", lease.Raise: "raise"}
	a, _ := asking(t, time.Second)
	for _, c := range []struct {
		do      lease.Do
		is      lease.Answer
		cause   lease.Cause
		wasKept bool
		want    error
	}{
		{do: lease.Ask, is: lease.Refused},
		{do: lease.Ask, is: lease.NotAccepted, want: ErrMarker},
		{do: lease.Raise, is: lease.Granted, cause: lease.NotRaised, want: errNotRaised},
		{do: lease.Raise, is: lease.Granted, cause: lease.MovedOn, want: errMovedOn},
		{do: lease.Renew, is: lease.Kept, wasKept: true},
		{do: lease.Renew, is: lease.Gone, wasKept: true, want: errForgotten},
		{do: lease.Extend, is: lease.Taken, wasKept: true, want: errTaken},
		{do: lease.Repair, is: lease.Refused, wasKept: true, want: errTaken},
		{do: lease.Repair, is: lease.Quarantined, wasKept: true, want: ErrQuarantined},
		{do: lease.Repair, is: lease.Barred, wasKept: true, want: errForced},
		{do: lease.Enter, is: lease.Barred, want: errTaken}, // the lock has ended meanwhile
	} {
		err := a.hold.replyError(lease.Command{Do: c.do}, lease.Reply{Is: c.is}, lease.Effect{Twin: -1, Cause: c.cause}, nil, c.wasKept)
		failed := &node.Error{Op: names[c.do]}
		testkit.Check(t, errors.Is(err, c.want) && (err == nil || errors.As(err, &failed)) && failed.Op == names[c.do], "%+v: %v", c, err)
	}
	err := a.hold.replyError(lease.Command{Do: lease.Ask}, lease.Reply{Is: lease.Granted}, lease.Effect{Twin: 1}, nil, false)
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "node a: acquire: invalid argument: it is the same process as node b"), "%v", err)
}

// A clock that is centuries ahead uses up no token counter.
func TestTokenSeedsOfAClockThatIsCenturiesOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		testkit.Equal(t, tokenSeed(), uint64(time.Now().UnixMicro()), "the seed")
		time.Sleep(time.Until(time.Date(2113, 1, 1, 0, 0, 0, 0, time.UTC)))
		testkit.Equal(t, tokenSeed(), 0, "the seed in 2113")
	})
}

// A caller who waits until nothing is under way is woken.
func TestAllWhoWaitForTheEndOfTheWork(t *testing.T) {
	var work tracker
	work.add()
	one, other := work.idle(), work.idle()
	work.done()
	for i, c := range []<-chan struct{}{one, other} {
		select {
		case <-c:
		default:
			t.Errorf("the one of place %d is not", i)
		}
	}
}

// A reply that comes without a look at the names, or not at all, says nothing of the time to the node.
func TestFailuresAreNoRoundTrips(t *testing.T) {
	for is, want := range map[lease.Answer]time.Duration{
		lease.Granted: time.Millisecond, lease.Refused: time.Millisecond, lease.Failed: 0, lease.NotAccepted: 0,
	} {
		a, fake := asking(t, time.Second)
		a.timed.Store(true)
		fake.Advance(time.Millisecond)
		a.noteReply(0, lease.Reply{Is: is}, scripts.AcquireReply{})
		testkit.Equal(t, a.hold.engine.RTT.Mean(0), want, is)
	}
}

// An undo waits for those that have not answered. The reply that has decided the attempt may be about to look for its tally:
// it must find none.
func TestAnUndoCountsNoReplyThatHasCome(t *testing.T) {
	a, _ := asking(t, time.Second)
	refusal := pipeline.Result{Reply: scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.HeldByAnother}}, RunID: "one"}
	a.requests[0].Done(refusal)
	a.requests[1].Done(refusal)
	_, open := a.startUndo()
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	testkit.Check(t, a.requests[0].tally == nil && a.requests[1].tally == nil && a.requests[2].tally == open,
		"%p, %p and %p, want %p for the last one", a.requests[0].tally, a.requests[1].tally, a.requests[2].tally, open)
}

// An attempt that comes before the list is known waits for it. If the nodes' names make no list, no node is asked for
// a grant, and the outcome has each node's reason.
func TestTheListIsKnownBeforeNodesAreAsked(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		attempt := func(nodes []*node.Node) (acquired bool, o *Outcome) {
			e := New(Config{Nodes: nodes, Quorum: quorate.Majority(3), Clock: c.Clock, UUID: "other", Founds: true})
			defer func() { e.Close(); <-e.Idle() }()
			return e.newHold(terms(time.Second), "a").Attempt(t.Context(), -1, waiting.AskAll, false)
		}
		acquired, o := attempt(c.Nodes)
		testkit.Check(t, acquired, "%+v", o)
		acquired, o = attempt(c.world.NewProcess().Nodes(node.WithName("the same")))
		isRefused := func(n NodeAnswer) bool { return n.Is == lease.Failed && n.Err != nil }
		testkit.Check(t, !acquired && o.Verdict == lease.OutOfReach && o.Kind == Unavailable && len(o.Nodes) == 3 &&
			!slices.ContainsFunc(o.Nodes, func(n NodeAnswer) bool { return !isRefused(n) }), "%v, %+v", acquired, o)
	})
}

// A request that waits for the node to accept this client is sent for the lock's state by then: entered again, or a
// reader's.
func TestARequestIsSentAgainForThePresentLock(t *testing.T) {
	for what, change := range map[string]func(l *Handle){
		"entered":    func(l *Handle) { l.Enter(new(Handle), context.Background(), lease.Write) },
		"downgraded": func(l *Handle) { l.Downgrade() },
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, nil, func(t *testing.T, c *cluster) {
				a := c.won(t)
				testkit.Check(t, a.commit(t.Context()), "it is not held")
				synctest.Wait()
				var calls [][]string
				c.world.Masters[2].Trace = func(_, script string, args []string, _ any, _ error) {
					calls = append(calls, append([]string{script}, args...))
				}
				change(a.hold.First())
				synctest.Wait()
				a.requests[2].sendAgain()
				synctest.Wait()
				testkit.Check(t, len(calls) == 2 && slices.Equal(calls[0], calls[1]), "%q", calls)
			})
		})
	}
}

// A caller who waits for a request learns that it has failed if it is not sent again: the lock has ended, or the node
// is closed.
func TestARequestThatIsNotSentAgain(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		again := func(h *Hold) *request {
			return &request{hold: h, command: lease.Command{Do: lease.Enter, Master: 2, Depth: 2}, tally: newTallyOfAll(1)}
		}
		ended := again(c.lock(t))
		ended.hold.First().Release()
		ended.submit(false)
		<-ended.tally.Decided
		failed := ended.tally.Result().Failed
		testkit.Check(t, len(failed) == 1 && errors.Is(failed[0], ErrMarker), "%v", failed)

		held := again(c.lock(t))
		c.Nodes[2].Close()
		held.sendAgain()
		failed = held.tally.Result().Failed
		testkit.Check(t, len(failed) == 1 && errors.Is(failed[0], node.ErrClosed) && held.hold.members[2].err != nil, "%v", failed)
	})
}

// All processes ask the same node first, in any order of the names. Names share the nodes evenly.
func TestTheFirstNodeIsTheSameInAnyOrder(t *testing.T) {
	a, _ := asking(t, time.Second)
	first := func(names ...string) int {
		return a.hold.engine.FirstNode(a.hold.engine.newHold(a.hold.terms, names...).names)
	}
	var count [3]int
	for i := range 300 {
		name := fmt.Sprint(i)
		testkit.Equal(t, first("a", name, "b"), first(name, "b", "a"), name)
		count[first(name)]++
	}
	testkit.Check(t, min(count[0], count[1], count[2]) >= 70, "the nodes are first for %v of 300 names", count)
}
