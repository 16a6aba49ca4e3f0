package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// takes acquires a slot, which must be free.
func (c *cluster) takes(s *Semaphore) *Lock {
	c.t.Helper()
	return c.got(s.TryAcquire(c.t.Context()))
}

func startAcquire(ctx context.Context, s *Semaphore, waiter int, to chan<- lockResult) {
	start(waiter, to, func() (*Lock, error) { return s.Acquire(ctx) })
}

func slotsOf(locks ...*Lock) (all []int) {
	for _, l := range locks {
		all = append(all, l.Slots()...)
	}
	slices.Sort(all)
	return all
}

// Exactly n calls hold a slot, each a different one, in one process and in several. A slot that is released
// goes to another call, with a higher token.
func TestSemaphoreHasNHolders(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		inCluster(t, func(t *testing.T, c *cluster) {
			one, other := c.process().Semaphore("s", n), c.process().Semaphore("s", n)
			var held []*Lock
			for i := range n {
				held = append(held, c.takes([]*Semaphore{one, other}[i%2]))
			}
			for slot, has := range slotsOf(held...) {
				require(t, has == slot, "the slots are %v", slotsOf(held...))
			}
			for _, s := range []*Semaphore{one, other} {
				wantError(t, errorOf(s.TryAcquire(t.Context())), ErrHeld, not{ErrPermanent}) // with all slots taken
			}
			left := held[n/2]
			c.unlock(left)
			next := c.takes(other)
			testkit.Check(t, next.Slots()[0] == left.Slots()[0] && next.Token() > left.Token(),
				"after %v the slot went to %v", left, next)
		})
	}
}

// A lock with the semaphore's name and semaphores with other names are independent. A flow takes another slot for
// each call.
func TestSemaphoreIsNoLockOfItsName(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		s := l.Semaphore("s", 2)
		plain := c.lock(l, "s")
		first := c.takes(s)
		second, err := s.Acquire(first.Context())
		require(t, err == nil && second.Slots()[0] != first.Slots()[0] && second.Owner() != first.Owner(),
			"in the flow of %v: %v, %v", first, second, err)
		// a flow with a slot entered the lock of that name
		wantError(t, errorOf(l.TryLock(second.Context(), "s")), ErrHeld)
		found, ok := FromContext(second.Context(), "s")
		testkit.Check(t, !ok, "FromContext found %v", found)
		testkit.Check(t, plain.Slots() == nil, "%v has slots %v", plain, plain.Slots())
		testkit.Equal(t, c.takes(l.Semaphore("t", 1)).Slots()[0], 0, "the only slot")
		if want := fmt.Sprintf(`lock "s" slot %d, token`, first.Slots()[0]); !strings.HasPrefix(first.String(), want) || !slices.Equal(first.Names(), []string{"s"}) {
			t.Errorf("a slot's lock is %v, names %q", first, first.Names())
		}
	})
}

// Clients that say different numbers share the slots: the largest number is the bound.
func TestSemaphoreOfDifferentSizes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		small, large := c.process().Semaphore("s", 2), c.process().Semaphore("s", 4)
		all := []*Lock{c.takes(small), c.takes(small), c.takes(large), c.takes(large)}
		got := slotsOf(all...)
		testkit.Check(t, slices.Equal(got, []int{0, 1, 2, 3}), "the slots are %v", got)
		for _, s := range []*Semaphore{small, large} {
			wantError(t, errorOf(s.TryAcquire(t.Context())), ErrHeld, of{s})
		}
	})
}

func TestSemaphoreOfSeveralSlots(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		one, other := c.process().Semaphore("s", 4), c.process().Semaphore("s", 4)
		three, err := one.TryAcquire(t.Context(), 3)
		require(t, err == nil && len(three.Slots()) == 3, "three slots: %v, %v", three, err)
		time.Sleep(time.Second) // until all nodes have them: one that has not replied yet may show all slots free
		lock, err := other.TryAcquire(t.Context(), 2)
		wantError(t, err, ErrHeld, "1 of 4 slots are free, and 2 are wanted", of{lock}) // two of one slot
		got := make(chan lockResult, 1)
		start(0, got, func() (*Lock, error) { return other.Acquire(context.Background(), 2) })
		last := c.takes(one) // the failed attempts have left nothing
		if all := slotsOf(three, last); !slices.Equal(all, []int{0, 1, 2, 3}) {
			t.Errorf("the slots are %v", all)
		}
		c.unlock(last)
		c.unlock(three)
		two := c.next(got, shortly)
		require(t, two.err == nil && len(two.lock.Slots()) == 2, "two slots: %v, %v", two.lock, two.err)
		c.unlock(two.lock)
		if all, err := one.TryAcquire(t.Context(), 4); err != nil || !slices.Equal(all.Slots(), []int{0, 1, 2, 3}) {
			t.Errorf("all slots: %v, %v", all, err)
		}
	})
}

func TestSemaphoreRefusesWhatIsNotValid(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		before := c.calls.Load()
		for _, s := range []*Semaphore{
			l.Semaphore("s", 0), l.Semaphore("s", -1), l.Semaphore("s", 1025), l.Semaphore("", 1), l.Semaphore("quorumlock:slot:1:s", 1),
			l.Semaphore(strings.Repeat("x", maxNameLen+1), 1), l.With(WithLease(-1)).Semaphore("s", 1),
		} {
			wantError(t, errorOf(s.Acquire(t.Context())), ErrInvalid, ErrPermanent, of{s})
			wantError(t, errorOf(s.Inspect(t.Context())), ErrInvalid, ErrPermanent, of{s})
			wantError(t, s.ForceUnlock(t.Context(), 0), ErrInvalid, ErrPermanent, of{s})
		}
		for size, k := range map[int]int{4: 5, 5: 0, 6: -1, 1024: 65} {
			wantError(t, errorOf(l.Semaphore("s", size).Acquire(t.Context(), k)), ErrInvalid, of{k})
		}
		wantError(t, errorOf(l.Semaphore("s", 4).Acquire(t.Context(), 1, 2)), ErrInvalid, "2 numbers")
		wantError(t, errorOf(l.Semaphore("s", 4).TryAcquire(t.Context(), 1, 2)), ErrInvalid, "2 numbers")
		wantError(t, l.Semaphore("s", 4).ForceUnlock(t.Context(), 4), ErrInvalid)           // slot 4 of 4
		wantError(t, l.Semaphore("s", 4).ForceUnlock(t.Context()), ErrInvalid)              // no slots
		wantError(t, errorOf(l.TryLock(t.Context(), scripts.SlotName("s", 0))), ErrInvalid) // a slot by its key
		// with a context that has ended
		wantError(t, errorOf(l.Semaphore("s", 1).Acquire(c.ended())), context.Canceled, ErrNotAcquired)
		if c.calls.Load() > before {
			t.Errorf("%d calls reached the masters", c.calls.Load()-before)
		}
		l.Close()
		wantError(t, errorOf(l.Semaphore("s", 1).Acquire(t.Context())), ErrClosed) // after Close
	})
}

// A slot that becomes free goes to one waiter, at once. While no slot is free, waiters
// send no attempts.
func TestSemaphoreWakesOneWaiter(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const n, waiters = 4, 4
		holder := c.process().Semaphore("s", n)
		var held []*Lock
		for range n {
			held = append(held, c.takes(holder))
		}
		synctest.Wait() // the last requests of the holder
		attempts := c.count("acquire")
		got := make(chan lockResult, waiters)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for i := range waiters {
			startAcquire(ctx, c.process().Semaphore("s", n), i, got)
			time.Sleep(shortly) // so that each counts those before it, once the subscriptions stand
		}
		first := attempts.Swap(0)
		testkit.Check(t, first <= waiters*int64(len(c.masters)), "the waiters' first attempts were %d requests", first)
		time.Sleep(5 * time.Second)
		testkit.Check(t, attempts.Load() == 0, "%d requests for slots while none was free", attempts.Load())
		for _, lock := range held {
			c.unlock(lock)
			next := c.next(got, shortly)
			require(t, next.err == nil && next.lock.Slots()[0] == lock.Slots()[0],
				"after the release of slot %d: %v, %v", lock.Slots()[0], next.lock, next.err)
			time.Sleep(shortly)
			require(t, len(got) == 0, "one release woke two waiters")
		}
		// A slot that was taken before its release reached the third master is free there until the next
		// renewal. So a turn may attempt it and fail, and each waiter has three turns after a release.
		asked := attempts.Load()
		testkit.Check(t, asked <= 3*n*waiters*int64(len(c.masters)), "%d requests for %d slots", asked, n)
	})
}

// A slot that is released while the first of a queue acquires another goes to the next at once: no
// further release may come.
func TestSemaphoreHearsAReleaseDuringAnAttempt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		holder := c.process().Semaphore("s", 2)
		held := []*Lock{c.takes(holder), c.takes(holder)}
		var once sync.Once
		s := c.process(WithHooks(Hooks{Attempt: func(_ context.Context, e AttemptEvent) {
			if e.Err == nil {
				once.Do(func() {
					c.unlock(held[1])
					time.Sleep(shortly) // the process has heard it
				})
			}
		}})).Semaphore("s", 2)
		got := make(chan lockResult, 2)
		for i := range 2 {
			startAcquire(context.Background(), s, i, got)
		}
		time.Sleep(shortly) // the subscriptions stand
		c.unlock(held[0])
		for range 2 {
			c.must(c.next(got, 2*shortly).err)
		}
	})
}

// A call that gives up after it wanted more slots than are free leaves them to the next in its queue.
func TestSemaphoreGoesOnAfterACallForSeveral(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		s := c.process().Semaphore("s", 3)
		c.takes(c.process().Semaphore("s", 3))
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, 3)
			gone <- err
		}()
		synctest.Wait()
		got := make(chan lockResult, 1)
		startAcquire(context.Background(), s, 1, got)
		time.Sleep(shortly)
		cancel()
		wantError(t, <-gone, context.Canceled)
		c.must(c.next(got, shortly).err)
	})
}

// command runs a command on a master.
func (c *cluster) command(master int, name string, args ...any) {
	c.t.Helper()
	ours, _ := c.dial(master)
	conn := redis.NewConn(ours, 0, 0)
	defer conn.Close()
	_, err := conn.Do(name, args...)
	c.must(err)
}

// Waiters of one process take the free slots one after another, in their order, without waiting for a
// release.
func TestSemaphoreServesAQueueAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const n = 8
		s := c.process().Semaphore("s", n)
		got := make(chan lockResult, n+1)
		arrives := c.jam() // so that they queue
		for i := range n + 1 {
			startAcquire(context.Background(), s, i, got)
		}
		arrives()
		held := make([]*Lock, n)
		for range n { // they may report in any order
			next := c.next(got, shortly)
			require(t, next.err == nil && next.waiter != n,
				"waiter %d has %v, %v", next.waiter, next.lock, next.err)
			held[next.waiter] = next.lock
		}
		attempt := func(waiter int) int { // the number of the one that was granted
			_, number, _ := strings.Cut(held[waiter].Owner(), ":")
			n, err := strconv.Atoi(number)
			require(t, err == nil, "an owner %q", held[waiter].Owner())
			return n
		}
		for i := 1; i < n; i++ {
			testkit.Check(t, attempt(i) > attempt(i-1),
				"waiter %d has %s, and waiter %d before it %s", i, held[i].Owner(), i-1, held[i-1].Owner())
		}
		all := slotsOf(held...)
		testkit.Check(t, len(slices.Compact(all)) == n, "the slots are %v", all)
		time.Sleep(time.Second)
		testkit.Check(t, len(got) == 0, "a call more than slots")
		c.unlock(held[3])
		if last := c.next(got, shortly); last.err != nil || last.lock.Slots()[0] != held[3].Slots()[0] {
			t.Errorf("the last waiter got %v, %v", last.lock, last.err)
		}
		c.wantNoQueues(s.locker)
	})
}

// A call that gives up says what it waited for, and leaves nothing behind.
func TestSemaphoreGivesUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		s, held := l.Semaphore("s", 1), c.takes(l.Semaphore("s", 1))
		wantError(t, errorOf(l.With(WithWait(time.Second)).Semaphore("s", 1).Acquire(t.Context())), ErrHeld,
			`lock "s": not acquired: held by another: all 1 slots are taken: gave up after 1s`)
		wantError(t, errorOf(l.With(WithWait(0)).Semaphore("s", 1).Acquire(t.Context())), ErrHeld)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan lockResult, 1)
		startAcquire(ctx, s, 0, got)
		testkit.Equal(t, c.subscriptions("quorumlock:slots:s"), len(c.masters), "subscriptions")
		cancel()
		wantError(t, c.next(got, shortly).err, context.Canceled) // a call whose context has ended
		synctest.Wait()
		testkit.Equal(t, c.subscriptions("quorumlock:slots:s"), 0, "subscriptions are left")
		c.wantNoQueues(l)
		c.unlock(held)
		testkit.Equal(t, c.takes(s).Slots()[0], 0, "the slot")
	})
}

// A master that does not answer delays no call for long, and one that has forgotten all slots misleads
// none for ever.
func TestSemaphoreWithAMasterThatMisleads(t *testing.T) {
	const n = 8
	for _, test := range []struct {
		name string
		make func(c *cluster, silent <-chan struct{})
	}{
		{"does not answer", func(c *cluster, silent <-chan struct{}) { c.before(1, func() { <-silent }) }},
		{"has forgotten all", func(c *cluster, _ <-chan struct{}) {
			for slot := range n {
				c.command(1, "DEL", scripts.SlotName("s", slot))
			}
		}},
	} {
		runInCluster(t, test.name, func(t *testing.T, c *cluster) {
			s := c.process(WithFixedLease(30*time.Second)).Semaphore("s", n)
			for range n - 1 {
				c.takes(s)
			}
			silent := make(chan struct{})
			defer close(silent)
			test.make(c, silent)
			began := time.Now()
			last := c.takes(s)
			wantError(t, errorOf(s.TryAcquire(t.Context())), ErrHeld) // next to all slots
			wantTook(t, began, 0, 2*shortly)
			c.unlock(last)
		})
	}
}

// A master behind a release says that the slot is taken. TryAcquire asks another one.
func TestSemaphoreBehindAnIncompleteRelease(t *testing.T) {
	for behind := range 3 {
		inCluster(t, func(t *testing.T, c *cluster) {
			one, other := c.process().Semaphore("s", 4), c.process().Semaphore("s", 4)
			held := []*Lock{c.takes(one), c.takes(one), c.takes(one), c.takes(one)}
			for range 10 {
				free := held[0]
				c.unlock(free)
				synctest.Wait() // on all masters
				key := scripts.SlotName("s", free.Slots()[0])
				c.command(behind, "HSET", key, free.Owner(), "1")
				c.command(behind, "PEXPIRE", key, "60000")
				held = append(held[1:], c.takes(other))
				one, other = other, one
			}
		})
	}
}

// A process that releases a slot attempts it first when it comes again: it costs what a lock costs,
// although others hold slots.
func TestSemaphoreTakesTheSlotItReleasedLast(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const n = 64
		other, l := c.process().Semaphore("s", n), c.process()
		c.must(errorOf(other.TryAcquire(t.Context(), n-2)))
		mine := c.takes(l.Semaphore("s", n))
		c.unlock(mine)
		hints := c.count("slots")
		for range 10 {
			again := c.takes(l.Semaphore("s", n))
			testkit.Equal(t, again.Slots()[0], mine.Slots()[0], "the slot of the next lock")
			c.unlock(again)
		}
		testkit.Check(t, hints.Load() == 0, "%d questions", hints.Load())
	})
}

// Processes that come again at once take turns: none waits while others have ten.
func TestSemaphoreTurns(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const n, processes, rounds = 4, 8, 20
		var mu sync.Mutex
		var holders, most, starved int
		since := make([]int, processes) // turns of others since a process has asked
		taken := map[int]bool{}
		var callers sync.WaitGroup
		for i := range processes {
			s := c.process().Semaphore("s", n)
			callers.Go(func() {
				for range rounds {
					lock, err := s.Acquire(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if holders++; taken[lock.Slots()[0]] {
						t.Errorf("slot %d has two holders", lock.Slots()[0])
					}
					taken[lock.Slots()[0]] = true
					most = max(most, holders)
					starved = max(starved, since[i])
					for j := range since {
						since[j]++
					}
					since[i] = 0
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					mu.Lock()
					holders--
					taken[lock.Slots()[0]] = false
					mu.Unlock()
					testkit.Check(t, lock.Unlock(context.Background()) == nil, "it is not unlocked")
				}
			})
		}
		callers.Wait()
		t.Logf("at most %d holders, and %d turns of others", most, starved)
		testkit.Check(t, most == n && starved <= 10*processes,
			"at most %d holders, and a process waited for %d turns of others", most, starved)
	})
}

func TestSemaphoreStateAndForce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		s := c.process().Semaphore("s", 3)
		held := c.takes(s)
		states, err := s.Inspect(t.Context())
		require(t, err == nil && len(states) == 3, "the slots are %+v (%v)", states, err)
		for slot, state := range states {
			owner := ""
			if slot == held.Slots()[0] {
				owner = held.Owner()
			}
			testkit.Check(t, state.Owner == owner && state.Name == "s" && state.Slot == slot,
				"slot %d is %+v", slot, state)
		}
		c.must(s.ForceUnlock(t.Context(), 0, 1, 2))
		if all, err := c.process().Semaphore("s", 3).TryAcquire(t.Context(), 3); err != nil {
			t.Errorf("all slots, by force: %v, %v", all, err)
		}
	})
}

// Errors name the semaphore and the slots, not the keys of the slots. Hooks have the semaphore's name.
func TestSemaphoreInErrorsAndHooks(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var names []string
		hooks := Hooks{
			Acquired: func(l *Lock) { names = append(names, fmt.Sprint("acquired ", l.Names(), l.Slots())) },
			Attempt: func(_ context.Context, e AttemptEvent) {
				names = append(names, fmt.Sprint(e.Outcome, e.Names, e.Slots))
			},
		}
		s := c.process(WithHooks(hooks), WithFixedLease(time.Second)).Semaphore("s", 1)
		held := c.takes(s)
		wantError(t, errorOf(s.TryAcquire(t.Context())), ErrHeld)
		want := []string{"acquired[s] [0]", "acquired [s] [0]", "held[s] []"}
		testkit.Check(t, slices.Equal(names, want), "the hooks had %q, want %q", names, want)
		<-held.Context().Done()
		wantError(t, held.Err(), ErrLost, `hold "s" slot 0: lost`)
		both, err := c.process(WithFixedLease(time.Second)).Semaphore("s", 2).TryAcquire(t.Context(), 2)
		require(t, err == nil && strings.HasPrefix(both.String(), `lock "s" slots 0, 1, token`),
			"%v, %v", both, err)
		<-both.Context().Done()
		wantError(t, both.Err(), `hold "s" slots 0, 1: lost`)
		_, inspect := s.Inspect(c.ended())
		for op, err := range map[string]error{"inspect": inspect, "force": s.ForceUnlock(c.ended(), 0)} {
			wantError(t, err, ErrUnavailable, op+` "s" slot 0: `)
		}
		refused := false
		s = c.process(WithHooks(Hooks{Attempt: func(_ context.Context, e AttemptEvent) {
			if e.Outcome == "unavailable" {
				refused = slices.Equal(e.Slots, []int{0})
			}
		}})).Semaphore("s", 1)
		crashAll(c)
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, ErrUnavailable) || !refused {
			t.Errorf("without masters: %v; the hook had the slot: %v", err, refused)
		}
		startAll(c, 5*time.Second)
	})
}

// The error of a full semaphore says how long the first of the slots is held.
func TestAFullSemaphoreSaysForHowLong(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithFixedLease(10 * time.Second))
		for range 2 {
			c.takes(l.Semaphore("s", 2))
			time.Sleep(4 * time.Second)
		}
		_, err := c.process().Semaphore("s", 2).TryAcquire(t.Context())
		var failed *Error
		if !errors.As(err, &failed) || failed.Remaining != 2*time.Second ||
			!strings.HasSuffix(err.Error(), "all 2 slots are taken (held for 2s more unless renewed)") {
			t.Error(err)
		}
	})
}

func TestDoWithASlot(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		s := c.process().Semaphore("s", 1)
		own := errors.New("the work's own error")
		err := s.Do(t.Context(), func(ctx context.Context, lock *Lock) error {
			testkit.Check(t, ctx == lock.Context() && lock.Slots()[0] == 0 && lock.Valid(), "the work has %v", lock)
			wantError(t, s.locker.With(WithWait(0)).Semaphore("s", 1).Do(ctx, nil), ErrHeld) // next to it
			return own
		})
		wantError(t, err, own, not{ErrNotHeld})
		c.unlock(c.takes(s))
	})
}

// A minority that says that all slots are taken hides from no waiter that the others are dead.
func TestASemaphoreOnTooFewMasters(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithWait(time.Second))
		c.takes(l.Semaphore("s", 1))
		synctest.Wait()
		crash(c.masters[1:], fakeredis.Everything)
		wantError(t, errorOf(l.Semaphore("s", 1).Acquire(t.Context())), ErrUnavailable, not{ErrHeld})
	})
}

// A slot costs what a lock costs, if there is no contention.
func TestASlotCostsALock(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		semaphore := l.Semaphore("s", 4)
		calls := func(take func() (*Lock, error)) int64 {
			before := c.calls.Load()
			for range 100 {
				c.unlock(c.got(take()))
				synctest.Wait()
			}
			return c.calls.Load() - before
		}
		locks := calls(func() (*Lock, error) { return l.Lock(t.Context(), "k") })
		slots := calls(func() (*Lock, error) { return semaphore.Acquire(t.Context()) })
		testkit.Check(t, 4*slots <= 5*locks, "100 slots take %d scripts, 100 locks %d", slots, locks)
	})
}
