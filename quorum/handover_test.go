package quorum

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/tickets"
	"github.com/quorumlock/quorumlock/scripts"
)

func (c *cluster) handOver(lock *Lock) string {
	c.t.Helper()
	ticket, err := lock.HandOver(c.t.Context())
	c.must(err)
	synctest.Wait() // all masters have it
	return ticket
}

func (c *cluster) takeOver(l *Locker, ticket string) *Lock {
	c.t.Helper()
	return c.got(l.TakeOver(c.t.Context(), ticket))
}

// wantPassedOn fails the test unless the ticket is of a lock that has passed on.
func (c *cluster) wantPassedOn(l *Locker, ticket string, isHeld bool) {
	c.t.Helper()
	_, err := l.TakeOver(c.t.Context(), ticket)
	if !errors.Is(err, ErrNotAcquired) || !errors.Is(err, ErrLost) || errors.Is(err, ErrHeld) != isHeld {
		c.t.Errorf("TakeOver: %v", err)
	}
}

// The first handle is dead, its keys stay, and a second process goes on with the lock: as its holder,
// with a higher token.
func TestHandOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const lease = 3 * time.Second
		released := 0
		first := c.process(WithLease(lease), WithHooks(Hooks{Released: func(*Lock) { released++ }}))
		second, third := c.process(WithLease(lease)), c.process()
		held := c.lock(first, "a", "b")
		inner := c.got(first.Lock(held.Context(), "a"))
		time.Sleep(lease / 4) // of the bubble's time
		ticket := c.handOver(held)
		if l, found := FromContext(held.Context(), "b"); found {
			t.Errorf("its context leads to %v", l)
		}
		for what, l := range map[string]*Lock{"first": held, "inner": inner} {
			cause := context.Cause(l.Context())
			testkit.Check(t, !l.Valid() && l.Depth() == 0 && cause == ErrHandedOver && l.Err() == ErrHandedOver,
				"the %s handle: valid %v, depth %d, %v, context %v", what, l.Valid(), l.Depth(), l.Err(), cause)
			for op, err := range map[string]error{"unlock": l.Unlock(t.Context()), "extend": l.Extend(t.Context(), lease)} {
				testkit.Check(t, errors.Is(err, ErrNotHeld) && errors.Is(err, ErrHandedOver),
					"%s of the %s handle: %v", op, what, err)
			}
		}
		wantError(t, errorOf(held.HandOver(t.Context())), ErrNotHeld) // hand over again
		testkit.Equal(t, released, 1, "runs of the hook Released")
		c.wantNothingScheduled(first)
		c.must(first.Close())

		c.calls.Store(0)
		time.Sleep(lease - shortly) // a full lease was left
		testkit.Equal(t, c.calls.Load(), 0, "calls of the first process after handing over")
		wantError(t, errorOf(third.TryLock(t.Context(), "b")), ErrHeld) // in between
		taken := c.takeOver(second, ticket)
		if taken.Token() <= held.Token() || taken.Owner() == held.Owner() || taken.Depth() != 1 || len(taken.Names()) != 2 {
			t.Errorf("%v took over from %v, depth %d", taken, held, taken.Depth())
		}
		time.Sleep(3 * lease)
		testkit.Check(t, taken.Valid(), "it is not renewed: %v", taken.Err())
		c.wantPassedOn(third, ticket, true)
		c.unlock(taken)
		c.wantNothingLeft(second)
		c.wantPassedOn(third, ticket, false)
	})
}

// Between the two, the first process does not claim that it holds the lock. It does for its other locks.
func TestALockThatWasHandedOverIsNotHeldByThisProcess(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lockKnown(l, "a")
		ticket := c.handOver(held)
		says := func(text string) {
			t.Helper()
			_, err := l.TryLock(t.Context(), "a")
			if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "not acquired: held by "+text+", 30s left (") {
				t.Errorf("%v, want %q", err, text)
			}
		}
		says("a ticket of this process (HandOver)")
		taken := c.takeOver(l, ticket)
		synctest.Wait()
		says("this process")
		c.unlock(taken)
	})
}

// Every way in which a lock passes on makes its ticket worthless.
func TestTicketOfALockThatHasPassedOn(t *testing.T) {
	const lease = time.Second
	for what, passOn := range map[string]func(c *cluster, l *Locker){
		"its lease has ended":   func(*cluster, *Locker) { time.Sleep(2 * lease) },
		"it was forced":         func(c *cluster, l *Locker) { l.ForceUnlock(c.t.Context(), "a") },
		"one of two was forced": func(c *cluster, l *Locker) { l.ForceUnlock(c.t.Context(), "b") },
		"two masters have lost it": func(c *cluster, _ *Locker) {
			restart(fakeredis.Nothing, c.masters[1:]...)
		},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process(WithLease(lease))
			ticket := c.handOver(c.lock(l, "a", "b"))
			passOn(c, l)
			c.wantPassedOn(l, ticket, false)
		})
	}
}

// A lock that cannot be confirmed is not handed over. It is held as before.
func TestHandOverThatFails(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		inner := c.got(l.Lock(held.Context(), "a"))
		fails := func(lock *Lock, ctx context.Context, want error) {
			t.Helper()
			if ticket, err := lock.HandOver(ctx); ticket != "" || !errors.Is(err, want) || !held.Valid() || held.Context().Err() != nil {
				t.Errorf("ticket %q, %v; the lock is valid: %v", ticket, err, held.Valid())
			}
		}
		fails(inner, t.Context(), ErrInvalid)
		fails(held, c.ended(), context.Canceled)
		crash(c.masters[:2], fakeredis.Everything)
		fails(held, t.Context(), ErrUnavailable)
		startAll(c, time.Second)
		c.unlock(c.takeOver(l, c.handOver(held)))
	})
}

// While too few masters answer, a ticket is worth what it was: a later call takes over.
func TestTakeOverThatFails(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		first, second := c.process(), c.process()
		held := c.lock(first, "a")
		ticket := c.handOver(held)
		crash(c.masters[:2], fakeredis.Everything)
		// without a quorum
		wantError(t, errorOf(second.TakeOver(t.Context(), ticket)), ErrNotAcquired, ErrUnavailable, not{ErrLost}, "take over")
		// TakeOver on a context that has ended
		wantError(t, errorOf(second.TakeOver(c.ended(), ticket)), context.Canceled, not{ErrLost})
		startAll(c, time.Second)
		c.unlock(c.takeOver(second, ticket))
	})
}

// One master's answer is not a quorum's: if the others do not answer, the lock may still be taken over there. But a
// lock that was taken over on one master, and lost by another, is lost.
func TestTakeOverWhereOneMasterHasLostIt(t *testing.T) {
	for what, answers := range map[string]bool{"the third answers": true, "none of the others answers in time": false} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process()
			held := c.lock(l, "a")
			ticket := c.handOver(held)
			c.frees(l, 0, held.Owner())
			c.masters[1].Crash(fakeredis.Everything)
			late := 0 // answers after all others
			if !answers {
				late = 2
			}
			c.before(late, func() { time.Sleep(10 * time.Millisecond) })
			_, err := l.TakeOver(t.Context(), ticket)
			if errors.Is(err, ErrLost) != answers || errors.Is(err, ErrUnavailable) == answers || errors.Is(err, ErrHeld) {
				t.Errorf("TakeOver: %v", err)
			}
		})
	}
}

// A master that was down when the lock was taken over still has the predecessor. The repair replaces it.
func TestRepairOfALockThatWasTakenOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		ticket := c.handOver(c.lock(l, "a"))
		c.masters[2].Crash(fakeredis.Everything)
		taken := c.takeOver(l, ticket)
		c.masters[2].Start()
		time.Sleep(DefaultLease / 2) // the predecessor's lasts for longer
		testkit.Equal(t, c.owners(l)[2], taken.Owner(), "the owner on the third master")
		c.unlock(taken)
	})
}

// A call that gives up after it has won has taken the lock from its predecessor.
func TestTakeOverThatIsGivenUpTooLate(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		ticket := c.handOver(c.lock(l, "a"))
		ctx, end := context.WithCancel(t.Context())
		c.before(1, end) // with its grant, which is the second
		c.before(2, func() { time.Sleep(10 * time.Millisecond) })
		wantError(t, errorOf(l.TakeOver(ctx, ticket)), context.Canceled)
		synctest.Wait()
		c.before(1, func() {})
		c.before(2, func() {})
		c.wantPassedOn(l, ticket, false)
		c.unlock(c.lock(l, "a"))
	})
}

// Handing over a fixed lease leaves its rest: it prolongs the lease no more than a re-entry does.
func TestHandOverOfAFixedLease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(WithFixedLease(time.Second)), c.process()
		held := c.lock(l, "a")
		time.Sleep(time.Second / 2)
		c.handOver(held)
		time.Sleep(time.Second/2 + shortly)
		c.unlock(c.got(other.TryLock(t.Context(), "a"))) // after the end of the lease
	})
}

// A request of the first holder for a grant that dies with its connection is not sent again after
// handing over: the lease would last longer on that master.
func TestHandOverAbandonsRequests(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const lease = 900 * time.Millisecond
		l := c.process(WithFixedLease(lease))
		answers := make(chan struct{})
		c.before(2, func() { <-answers })
		c.handOver(c.lock(l, "a"))
		time.Sleep(lease - shortly)
		c.hangUp(2)
		c.before(2, func() {})
		close(answers)
		time.Sleep(2 * shortly)
		testkit.Check(t, !slices.Contains(c.masters[2].Keys(), "a"), "the third master has %q", c.masters[2].Keys())
	})
}

// A request of the first holder for a grant that arrives after the successor has come and gone leaves no lock: nobody would
// release it.
func TestALateRequestOfThePredecessorIsNotGranted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		next := c.process()
		var isLate atomic.Bool
		arrives := make(chan struct{})
		l := c.over(func(master int) {
			if master == 2 && isLate.Load() {
				<-arrives
			}
		}, 0, 1, 2)
		c.unlock(c.lock(l, "a"))
		synctest.Wait()
		isLate.Store(true)
		ticket := c.handOver(c.lock(l, "a"))
		c.unlock(c.takeOver(next, ticket))
		synctest.Wait()
		close(arrives)
		testkit.Pass(shortly)
		testkit.Check(t, !slices.Contains(c.masters[2].Keys(), "a"), "the third master has %q", c.masters[2].Keys())
	})
}

// A Locker's hooks see a take-over as a call of TryLock.
func TestHooksOfTakeOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var seen []string
		note := func(what string) { seen = append(seen, what) }
		l := c.process(WithHooks(Hooks{
			LockStart: func(ctx context.Context, _ []string) context.Context { note("start"); return ctx },
			Attempt:   func(_ context.Context, e AttemptEvent) { note("attempt " + e.Outcome) },
			LockEnd:   func(_ context.Context, e LockEvent) { note("end " + e.Outcome) },
			Acquired:  func(*Lock) { note("acquired") },
		}))
		ticket := c.handOver(c.lock(l, "a"))
		seen = nil
		c.unlock(c.takeOver(l, ticket))
		c.wantPassedOn(l, ticket, false)
		got, want := strings.Join(seen, ", "), "start, attempt acquired, end acquired, acquired, start, attempt failed, end failed"
		testkit.Check(t, got == want, "the hooks saw %s, want %s", got, want)
	})
}

// Do leaves a lock alone that its function has handed over.
func TestDoThatHandsOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		var ticket string
		err := l.Do(t.Context(), func(ctx context.Context, lock *Lock) (err error) {
			ticket, err = lock.HandOver(ctx)
			return err
		}, "a")
		c.must(err)
		c.unlock(c.takeOver(l, ticket))
	})
}

func TestTicketsThatAreNoTickets(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, good := c.process(), tickets.Ticket{Owner: scripts.OwnerOf("locker:1"), Token: 7, Names: []string{"a"}}
		for what, names := range map[string][]string{
			"no names": nil, "our keys": {scripts.MarkerKey}, "two alike": {"a", "a"},
		} {
			bad := good
			bad.Names = names
			lock, err := l.TakeOver(t.Context(), bad.String())
			testkit.Check(t, errors.Is(err, ErrInvalid) && len(err.Error()) <= 300, "%s: %v, %v", what, lock, err)
		}
		text := good.String()
		const cutOff = "the text is no ticket of HandOver: it is cut off"
		wantError(t, errorOf(l.TakeOver(t.Context(), text[:len(text)-4])), ErrInvalid, cutOff)
	})
}

// A ticket names an owner that a writer's hash has: a reader is not handed over, and goes on.
func TestHandOverOfAReader(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		rw := c.process().RWLock("a")
		reader := c.got(rw.RLock(t.Context()))
		writer := c.lock(c.process(), "b")
		c.must(writer.Downgrade(t.Context()))
		for what, lock := range map[string]*Lock{"a reader": reader, "a writer that was downgraded": writer} {
			ticket, err := lock.HandOver(t.Context())
			if ticket != "" || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "reader") || !lock.Valid() {
				t.Errorf("%s: ticket %q, %v, valid %v", what, ticket, err, lock.Valid())
			}
			if err := lock.Unlock(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// Readers came after the lock that was handed over was forced away: nobody takes over alongside them.
func TestTakeOverBesideReaders(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ticket := c.handOver(c.lock(c.process(), "a"))
		c.must(c.process().ForceUnlock(t.Context(), "a"))
		reader := c.got(c.process().RWLock("a").RLock(t.Context()))
		c.wantPassedOn(c.process(), ticket, true)
		testkit.Check(t, reader.Valid(), "the reader: %v", reader.Err())
	})
}

// A take-over of a semaphore's slots gets the same slots, and nobody else gets one meanwhile.
func TestHandOverOfSlots(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		first, second, third := c.process(), c.process(), c.process()
		held := c.got(first.Semaphore("s", 3).Acquire(t.Context(), 2))
		other := c.got(third.Semaphore("s", 3).Acquire(t.Context()))
		ticket := c.handOver(held)
		wantError(t, errorOf(third.Semaphore("s", 3).TryAcquire(t.Context())), ErrHeld) // next to a ticket
		taken := c.takeOver(second, ticket)
		if !slices.Equal(taken.Slots(), held.Slots()) || !slices.Equal(taken.Names(), []string{"s"}) || taken.Token() <= held.Token() {
			t.Errorf("%v takes over from %v", taken, held)
		}
		c.wantPassedOn(third, ticket, true)
		testkit.Check(t, !slices.Contains(taken.Slots(), other.Slots()[0]) && other.Valid(),
			"slots %v next to %d", taken.Slots(), other.Slots()[0])
		c.unlock(taken)
		again, err := third.Semaphore("s", 3).Acquire(t.Context(), 2)
		testkit.Check(t, err == nil && again.Token() > taken.Token(), "after it: %v, %v", again, err)
	})
}
