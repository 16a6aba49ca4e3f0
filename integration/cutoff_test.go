package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// faults cut one client off from its masters.
var faults = []struct {
	name string
	cut  func(*forward.Forward)
}{
	{"refused", (*forward.Forward).Close},
	{"black hole", (*forward.Forward).Lose},
	// The renewals arrive and keep the locks on the masters, but their replies do not. The holder's
	// release then lets the next holder in.
	{"replies lost", (*forward.Forward).LoseReplies},
}

// A holder that is cut off stops by its own clock before another contender can start. Not parallel:
// the time between the two is 1 % of the lease and 2 ms.
func TestHolderThatIsCutOffStopsBeforeTheNextStarts(t *testing.T) {
	for _, n := range []int{3, 5} {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%d masters, %s", n, fault.name), func(t *testing.T) {
				// A machine that stands still until the deadline has sent no renewal that could fail, and
				// ends a context late, or nobody contends. Then the scene is played again.
				for tries := 1; ; tries++ {
					f, held, late, stalled := cutOffAll(t, n, fault.cut)
					lacks := func(lost *quorum.Lock) bool { return lacksReasons(lost, n) }
					bare := slices.ContainsFunc(held, lacks) && stalled > cutOffLease/4
					if (bare || late != "") && tries < 5 {
						t.Logf("without a reason: %v, stalls of %v; %s: again", bare, stalled, late)
						continue
					}
					testkit.Check(t, late == "", "%v", late)
					for _, first := range held {
						wantReasons(t, first, f)
					}
					return
				}
			})
		}
	}
}

const cutOffLease = 2 * time.Second

// cutOffAll cuts off a holder of three locks, for each of which another one contends. It returns the locks once
// they have passed to the others, a context that ended late while threads waited for a processor, and for how
// long the machine stood still.
func cutOffAll(t *testing.T, n int, cut func(*forward.Forward)) (*redistest.Fleet, []*quorum.Lock, string, time.Duration) {
	t.Helper()
	f := fleet(t, n)
	forwards, urls := forwarded(t, f)
	cutOff := open(t, urls, redlock.Open, quorum.WithLease(cutOffLease),
		quorum.WithNodeOptions(node.WithTimeout(cutOffLease/8)))
	other := open(t, f, redlock.Open)
	w := stopwatch(t)
	defer w.Stop()
	var race sync.WaitGroup
	held := make([]*quorum.Lock, 3)
	for i := range held {
		held[i] = lock(t, cutOff, fmt.Sprintf("bridge %d", i))
	}
	for _, p := range forwards {
		cut(p)
	}
	late := make([]string, len(held))
	for i, first := range held {
		race.Go(func() { late[i] = contend(t, first, other, n) })
	}
	race.Wait()
	_, stalled := w.Read()
	return f, held, strings.Join(late, ""), stalled
}

// onTime is by how much a timer of an idle machine may be late.
const onTime = 2 * time.Millisecond

// contend tries again and again until the lock is granted, near the deadline in a tight loop, and fails the
// test if the last holder had not stopped by then. If its context ended late, and threads waited for a processor, or
// the host had one, for as long, it says so.
func contend(t *testing.T, first *quorum.Lock, other *quorum.Locker, masters int) (late string) {
	var stopped time.Time
	ended := make(chan struct{})
	go func() {
		<-first.Context().Done()
		stopped = time.Now()
		close(ended)
	}()
	// A plain timer at the same deadline shows how late timers are on this machine, at this moment.
	timer := make(chan time.Duration, 1)
	deadline := first.Deadline()
	control := time.AfterFunc(time.Until(deadline), func() { timer <- time.Since(deadline) })
	defer control.Stop()
	near := make(chan [2]time.Duration, 1)
	defer time.AfterFunc(time.Until(deadline.Add(-cutOffLease/20)), func() {
		threads, processors := poll.Waited()
		near <- [2]time.Duration{threads, processors}
	}).Stop()
	refused := 0
	giveUp := time.Now().Add(patience)
	for {
		second, err := other.TryLock(t.Context(), first.Names()...)
		if err != nil {
			refused++
			if !errors.Is(err, quorum.ErrHeld) || time.Now().After(giveUp) {
				t.Errorf("%q, attempt %d: %v", first.Names(), refused, err)
				return ""
			}
			if time.Until(deadline) > cutOffLease/10 {
				time.Sleep(2 * time.Millisecond)
			}
			continue
		}
		granted, valid, live := time.Now(), first.Valid(), first.Context().Err() == nil
		testkit.Check(t, !valid, "%q: two holders: the one that is cut off is valid", first.Names())
		<-ended
		// The clock of Valid knows no stalls. The context's end is a timer's, which may be late. The goroutine that
		// ends it may be on a thread that waits, while the plain timer's is not.
		lateness, plain := stopped.Sub(granted), <-timer
		threads, processors := poll.Waited()
		before := <-near
		threads, processors = threads-before[0], processors-before[1]
		if (live || lateness >= 0) && lateness >= max(0, 4*(plain-onTime)) {
			what := fmt.Sprintf("%q: the context was alive: %v; it ended %v after the next holder was granted, a plain timer was late by %v, threads waited for a processor for %v, and the host had processors for %v",
				first.Names(), live, lateness, plain, threads, processors)
			if threads+processors > lateness {
				late = what
			} else {
				t.Error(what)
			}
		}
		testkit.Check(t, second.Token() > first.Token(), "%q: token %d after %d", first.Names(), second.Token(), first.Token())
		t.Logf("%q: next holder %v after the end of the first, %d attempts refused",
			first.Names(), granted.Sub(stopped), refused)
		if refused == 0 { // the machine stood still meanwhile
			late += fmt.Sprintf("%q: no contender asked for the lock while it was held", first.Names())
		}
		testkit.Is(t, second.Unlock(t.Context()), nil, "Unlock of the next holder")
		return late
	}
}

// lacksReasons reports whether the loss of a lock does not name all masters.
func lacksReasons(lost *quorum.Lock, masters int) bool {
	var why *quorum.Error
	return !errors.As(context.Cause(lost.Context()), &why) || why.Nodes == nil || len(why.Nodes.Errors) != masters
}

// wantReasons fails the test unless a lock was lost because no node answered.
func wantReasons(t *testing.T, lost *quorum.Lock, f *redistest.Fleet) {
	t.Helper()
	cause := context.Cause(lost.Context())
	want(t, cause, quorum.ErrLost, lost.Names()[0])
	want(t, lost.Err(), quorum.ErrLost)
	want(t, lost.Unlock(t.Context()), quorum.ErrLost)
	testkit.Require(t, !lacksReasons(lost, len(f.Masters)), "%v: no reason for each node", cause)
	why, _ := errors.AsType[*quorum.Error](cause)
	for i, m := range f.Masters {
		var failed *node.Error
		if err := why.Nodes.Errors[i]; !errors.As(err, &failed) || failed.Node != m.Addr() ||
			!errors.Is(err, node.ErrDown) && !errors.Is(err, node.ErrTimeout) {
			t.Errorf("reason of node %d: %v", i+1, err)
		}
	}
}
