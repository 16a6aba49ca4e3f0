package integration_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// pairs locks and unlocks until the context ends, with a pause before each pair. It returns how long the
// pairs took, the shortest first.
func pairs(t *testing.T, ctx context.Context, pause time.Duration, take func(context.Context) (*quorum.Lock, error)) (all []time.Duration) {
	now := clock.System().Now
	for ctx.Err() == nil {
		time.Sleep(pause)
		began := now()
		held, err := take(context.Background())
		if err != nil {
			t.Error(err)
			return all
		}
		if err := held.Unlock(context.Background()); err != nil {
			t.Error(err)
			return all
		}
		all = append(all, now().Sub(began))
	}
	slices.Sort(all)
	return all
}

// Eight processes contend for four slots. A free slot goes to a waiter within three pairs, and none
// waits while another has ten turns. A pair is that of a lock of another name meanwhile. The waiters are
// other processes, which the machine must wake: that is what the hops are for.
func TestProcessesShareSlots(t *testing.T) {
	const processes, slots = 8, 4
	for range 3 { // a machine that stands still all the time shows nothing
		if judgeShares(t, processes, slots) {
			return
		}
	}
	t.Skip("SKIPPED: the machine stood still between almost all turns, three times")
}

// judgeShares reports whether the machine went on for long enough to judge the turns.
func judgeShares(t *testing.T, processes, slots int) bool {
	t.Helper()
	f := fleet(t, 3)
	locker := open(t, f, redlock.Open)
	ctx, cancel := context.WithCancel(t.Context())
	measured := make(chan []time.Duration, 1)
	go func() {
		const nowAndThen = 2 * time.Millisecond // so that the pairs are no load
		measured <- pairs(t, ctx, nowAndThen, func(ctx context.Context) (*quorum.Lock, error) {
			return locker.Lock(ctx, "other")
		})
	}()
	all, shares, _, control := takeTurns(t, f, slots, processes, 20*time.Millisecond, 0)
	cancel()
	pair := <-measured
	last, handoffs := map[int64]aTurn{}, []time.Duration{}
	starved := 0
	for i, turn := range all {
		if before, ok := last[turn.slot]; ok && !stoodStill(control, before, turn) {
			handoffs = append(handoffs, time.Duration(turn.got-max(before.left, turn.called)))
		}
		last[turn.slot] = turn
		others := map[int64]int{} // turns of each other process during the wait
		for _, other := range all[:i] {
			if other.got > turn.called && other.process != turn.process {
				others[other.process]++
				starved = max(starved, others[other.process])
			}
		}
	}
	if len(handoffs) < 20 || len(pair) == 0 || len(control) == 0 {
		t.Logf("%d handoffs, %d pairs and %d hops were seen while the machine went on", len(handoffs), len(pair), len(control))
		return false
	}
	slices.Sort(handoffs)
	slices.SortFunc(control, func(a, b hop) int { return int(a.took() - b.took()) })
	hop50 := control[len(control)/2].took()
	p50, p90, pair50 := handoffs[len(handoffs)/2], handoffs[len(handoffs)*9/10], pair[len(pair)/2]
	t.Logf("%d turns; a free slot taken after p50 %v, p90 %v; a pair p50 %v: %.1f and %.1f pairs; hop p50 %v; shares %d to %d; at most %d turns of another process during a wait",
		len(all), p50, p90, pair50, float64(p50)/float64(pair50), float64(p90)/float64(pair50), hop50, slices.Min(shares), slices.Max(shares), starved)
	if p50 > 3*pair50+4*hop50 {
		t.Errorf("a free slot was taken after %v, where a pair is %v and a hop %v", p50, pair50, hop50)
	}
	if starved >= 10 {
		t.Errorf("a process waited while another had %d turns", starved)
	}
	return true
}

// A minority of the masters that says that all slots are taken hides from no waiter that the others are dead.
func TestASemaphoreOnTooFewMasters(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	locker := open(t, f, redlock.Open)
	held, err := locker.Semaphore("s", 1).Acquire(t.Context())
	must(t, err)
	grantedByAll(t, f.Masters, scripts.SlotName("s", held.Slot()))
	must(t, f.Masters[0].Kill())
	must(t, f.Masters[1].Kill())
	waiter := locker.With(quorum.WithWait(time.Second)).Semaphore("s", 1)
	eventually(t, patience, func() bool {
		_, err = waiter.Acquire(t.Context())
		return errors.Is(err, quorum.ErrUnavailable)
	}, "the waiter is told that masters are unavailable")
	var failed *node.Error
	if !errors.As(err, &failed) || errors.Is(err, quorum.ErrHeld) {
		t.Errorf("the waiter is told %v", err)
	}
	held.Unlock(t.Context()) // which fails, too
}
