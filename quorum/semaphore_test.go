package quorum

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// takes acquires a slot, which must be free.
func (c *cluster) takes(s Semaphore) *Lock {
	c.t.Helper()
	return c.got(s.TryAcquire(c.t.Context()))
}

func startAcquire(ctx context.Context, s Semaphore, waiter int, to chan<- lockResult) {
	start(waiter, to, func() (*Lock, error) { return s.Acquire(ctx) })
}

func slotsOf(locks ...*Lock) (all []int) {
	for _, l := range locks {
		all = append(all, l.Slots()...)
	}
	slices.Sort(all)
	return all
}

// A slot that is released while the first of a queue acquires another goes to the next at once: no
// further release may come.
func TestSemaphoreHearsAReleaseDuringAnAttempt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		holder := NewSemaphore(c.process(), "s", 2)
		held := []*Lock{c.takes(holder), c.takes(holder)}
		var once sync.Once
		l := c.process(WithHooks(Hooks{Attempt: func(_ context.Context, e AttemptEvent) {
			if e.Err == nil {
				once.Do(func() {
					c.unlock(held[1])
					time.Sleep(shortly) // the process has heard it
				})
			}
		}}))
		s := NewSemaphore(l, "s", 2)
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

// command runs a command on a master.
func (c *cluster) command(master int, name string, args ...any) {
	c.t.Helper()
	ours := testkit.Got(c.NewProcess().Dial(c.t.Context(), master))(c.t)
	conn := redis.NewConn(ours, 0, 0)
	defer conn.Close()
	testkit.Got(conn.Do(name, args...))(c.t)
}

// Waiters of one process take the free slots one after another, in their order, without waiting for a
// release.
func TestSemaphoreServesAQueueAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const n = 8
		l := c.process()
		s := NewSemaphore(l, "s", n)
		got := make(chan lockResult, n+1)
		arrives := c.jam() // so that they queue
		for i := range n + 1 {
			startAcquire(context.Background(), s, i, got)
		}
		arrives()
		held := make([]*Lock, n)
		for range n { // they may report in any order
			next := c.next(got, shortly)
			testkit.Require(t, next.err == nil && next.waiter != n,
				"waiter %d has %v, %v", next.waiter, next.lock, next.err)
			held[next.waiter] = next.lock
		}
		attempt := func(waiter int) int { // the number of the one that was granted
			_, number, _ := strings.Cut(held[waiter].Owner(), ":")
			n, err := strconv.Atoi(number)
			testkit.Require(t, err == nil, "an owner %q", held[waiter].Owner())
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
		last := c.nextLock(got, shortly)
		testkit.Check(t, last.Slots()[0] == held[3].Slots()[0], "the last waiter got %v", last)
		c.wantNoQueues(l)
	})
}

// A master behind a release says that the slot is taken. TryAcquire asks another one.
func TestSemaphoreBehindAnIncompleteRelease(t *testing.T) {
	for behind := range 3 {
		inCluster(t, func(t *testing.T, c *cluster) {
			one, other := NewSemaphore(c.process(), "s", 4), NewSemaphore(c.process(), "s", 4)
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
			s := NewSemaphore(c.process(), "s", n)
			callers.Go(func() {
				for range rounds {
					lock, err := s.Acquire(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					holders++
					testkit.Check(t, !taken[lock.Slots()[0]], "slot %d has two holders", lock.Slots()[0])
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

// A waiter that was refused, because another process has taken a slot since the hint, tries again at once if others may be free.
func TestSemaphoreTriesWhatIsLeft(t *testing.T) {
	for k := range 3 {
		inCluster(t, func(t *testing.T, c *cluster) {
			holder := NewSemaphore(c.process(), "s", 4)
			c.takes(holder)
			three := c.got(holder.TryAcquire(t.Context(), 3))
			got := make(chan lockResult, 1)
			waits := NewSemaphore(c.process(), "s", 4)
			start(0, got, func() (*Lock, error) { return waits.Acquire(context.Background(), 2) })
			time.Sleep(shortly) // the subscriptions stand
			var hinted sync.Once
			var goOn func()
			c.on(func(script string) {
				if script == "slots" {
					hinted.Do(func() { goOn = c.jam() })
				}
			})
			c.unlock(three)
			synctest.Wait()
			for master := range 3 {
				key := scripts.SlotName("s", three.Slots()[k])
				c.command(master, "HSET", key, "other:1", "1")
				c.command(master, "PEXPIRE", key, "60000")
			}
			goOn()
			c.nextLock(got, shortly)
		})
	}
}
