package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// patient makes a waiter poll so seldom that only a message, or the end of a lease, can wake it in
// time.
var patient = quorum.WithRetry(time.Minute, time.Minute)

// wakes bounds the time from a release until a waiter holds the lock, on a busy machine: far below
// every poll.
const wakes = 300 * time.Millisecond

// waited is the outcome of a Lock that had to wait.
type waited struct {
	lock *quorum.Lock
	err  error
	at   time.Time
}

// wait calls Lock, and returns when the waiter has subscribed on the masters and has made the
// attempt that follows.
func wait(t *testing.T, ctx context.Context, l *quorum.Locker, ms []*redistest.Master, name string) <-chan waited {
	t.Helper()
	before := subscriptions(t, ms, name)
	result := make(chan waited, 1)
	go func() {
		lock, err := l.Lock(ctx, name)
		result <- waited{lock, err, time.Now()}
	}()
	eventually(t, patience, func() bool { return subscriptions(t, ms, name) >= before+len(ms) },
		"the waiter has subscribed on each of these masters")
	pass(t, 60*time.Millisecond)
	return result
}

// subscriptions counts the subscriptions to a name's channel, over the masters.
func subscriptions(t *testing.T, ms []*redistest.Master, name string) int {
	t.Helper()
	sum := 0
	for _, m := range ms {
		reply, err := redis.Values(m.Do("PUBSUB", "NUMSUB", scripts.Channel(name)))
		must(t, err)
		n, err := redis.Int(reply[1], nil)
		must(t, err)
		sum += n
	}
	return sum
}

// woken fails the test unless the waiter got the lock within bound of since. It unlocks.
func woken(t *testing.T, w <-chan waited, since *poll.Stopwatch, bound time.Duration) {
	t.Helper()
	select {
	case got := <-w:
		must(t, got.err)
		_, stalled := since.Read()
		since.Stop()
		if took := got.at.Sub(since.Began()); took > poll.AtMost(bound, stalled) {
			t.Errorf("the waiter held the lock after %v, want within %v; the machine stood still for %v", took, bound, stalled)
		}
		unlock(t, got.lock)
	case <-time.After(bound + patience):
		t.Fatalf("the waiter did not get the lock within %v", bound+patience)
	}
}

func TestAReleaseWakes(t *testing.T) {
	for kind, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
		for _, n := range []int{3, 5} {
			t.Run(fmt.Sprint(kind, n), func(t *testing.T) {
				f := fleet(t, n)
				holder, waiter := open(t, f, by), open(t, f, by, patient)
				for range 5 {
					held := lock(t, holder, "k")
					// The holder has just released it, so it may have subscribed to let others go first.
					eventually(t, patience, func() bool { return subscriptions(t, f.Masters, "k") == 0 },
						"the holder has no subscription")
					w := wait(t, t.Context(), waiter, f.Masters, "k")
					since := stopwatch(t)
					unlock(t, held)
					woken(t, w, since, wakes)
				}
				eventually(t, patience, func() bool { return subscriptions(t, f.Masters, "k") == 0 },
					"no subscription is left without a waiter")
				noLocks(t, f.Masters)
			})
		}
	}
}

func TestAReleaseWakesAWaiterForSeveralNames(t *testing.T) {
	f := fleet(t, 3)
	holder, waiter := open(t, f, redlock.Open), open(t, f, redlock.Open, patient)
	first, second := lock(t, holder, "a"), lock(t, holder, "b")
	result := make(chan waited, 1)
	go func() {
		both, err := waiter.Lock(t.Context(), "b", "a")
		result <- waited{both, err, time.Now()}
	}()
	eventually(t, patience, func() bool { return subscriptions(t, f.Masters, "a")+subscriptions(t, f.Masters, "b") == 6 },
		"the waiter has subscribed to both")
	unlock(t, first)
	pass(t, 50*time.Millisecond)
	since := stopwatch(t)
	unlock(t, second)
	woken(t, result, since, wakes)
}

// A flow that can get its name does not queue behind a waiter for that name and another one.
func TestAFlowThatHoldsOneNameIsNotBlockedByAWaiterForTwo(t *testing.T) {
	f := fleet(t, 3)
	l := open(t, f, redlock.Open)
	b := lock(t, l, "b")
	both := make(chan waited, 1)
	go func() {
		lock, err := l.Lock(t.Context(), "a", "b")
		both <- waited{lock, err, time.Now()}
	}()
	eventually(t, patience, func() bool { return subscriptions(t, f.Masters, "a") == 3 },
		"the waiter for both names has subscribed")
	unlock(t, lock(t, l, "a"))
	since := stopwatch(t)
	unlock(t, b)
	woken(t, both, since, 2*time.Second)
}

// Messages may be lost in many ways. The waiter gets the lock all the same.
func TestNobodyIsStranded(t *testing.T) {
	each := func(t *testing.T, f *redistest.Fleet, command ...any) {
		for _, m := range f.Masters {
			do(t, m, command...)
		}
	}
	t.Run("all messages are lost", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		far := proxied(t, f)
		held := lock(t, open(t, f, redlock.Open), "k")
		w := wait(t, t.Context(), open(t, far, redlock.Open), f.Masters, "k")
		far.each(func(p *proxy) { p.mute("\r\nmessage\r\n") })
		since := stopwatch(t)
		unlock(t, held)
		woken(t, w, since, 1500*time.Millisecond) // a slow poll: 0.5 to 1 s
		eventually(t, patience, func() bool {
			return len(slices.DeleteFunc(slices.Clone(far.proxies), undropped)) >= 2
		}, "a quorum's messages are lost")
	})
	t.Run("the message of all nodes but one is lost", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		far := proxied(t, f)
		held := lock(t, open(t, f, redlock.Open), "k")
		w := wait(t, t.Context(), open(t, far, redlock.Open, patient), f.Masters, "k")
		for _, p := range far.proxies[:2] {
			p.mute("\r\nmessage\r\n")
		}
		far.proxies[2].set(replies, weather{held: true}) // the lock is free everywhere before the message comes
		unlock(t, held)
		eventually(t, patience, func() bool {
			return len(leftOver(t, f.Masters, "k")) == 0 || len(w) == 1 // the waiter's last attempt came just then
		}, "the lock is free")
		since := stopwatch(t)
		far.proxies[2].set(replies, weather{})
		woken(t, w, since, wakes)
	})
	t.Run("the connections for messages are killed, and again", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		held := lock(t, open(t, f, redlock.Open), "k")
		w := wait(t, t.Context(), open(t, f, redlock.Open, patient), f.Masters, "k")
		for range 3 {
			each(t, f, "CLIENT", "KILL", "TYPE", "pubsub")
			eventually(t, patience, func() bool { return subscriptions(t, f.Masters, "k") == 3 },
				"the waiter subscribes again")
		}
		since := stopwatch(t)
		unlock(t, held)
		woken(t, w, since, wakes)
	})
	t.Run("the connections for messages are killed with the release", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		held := lock(t, open(t, f, redlock.Open), "k")
		w := wait(t, t.Context(), open(t, f, redlock.Open, patient), f.Masters, "k")
		each(t, f, "CLIENT", "KILL", "TYPE", "pubsub")
		since := stopwatch(t)
		unlock(t, held)
		woken(t, w, since, 2*wakes) // the waiter connects again, and then tries again
	})
	t.Run("subscribing is forbidden", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		each(t, f, "ACL", "SETUSER", "default", "-@pubsub", "+publish")
		held := lock(t, open(t, f, redlock.Open), "k")
		result := make(chan waited, 1)
		waiter := open(t, f, redlock.Open)
		go func() {
			lock, err := waiter.Lock(t.Context(), "k")
			result <- waited{lock, err, time.Now()}
		}()
		pass(t, 100*time.Millisecond)
		since := stopwatch(t)
		unlock(t, held)
		woken(t, result, since, 2*wakes) // the waiter polls, every 10 to 200 ms
	})
	t.Run("a node is frozen when it subscribes", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		holder, waiter := open(t, f, redlock.Open), open(t, f, redlock.Open, patient)
		held := lock(t, holder, "k")
		must(t, f.Masters[1].Freeze())
		w := wait(t, t.Context(), waiter, []*redistest.Master{f.Masters[0], f.Masters[2]}, "k")
		since := stopwatch(t)
		unlock(t, held)
		woken(t, w, since, wakes)
		must(t, f.Masters[1].Thaw())
		noLocks(t, f.Masters)
	})
	t.Run("a node dies with its message", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		holder, waiter := open(t, f, redlock.Open), open(t, f, redlock.Open,
			quorum.WithRetry(10*time.Millisecond, time.Minute))
		must(t, f.Masters[2].Kill())
		held := lock(t, holder, "k") // on the first two
		w := wait(t, t.Context(), waiter, f.Masters[:2], "k")
		must(t, f.Masters[2].Start())
		eventually(t, patience, func() bool {
			state, err := waiter.Inspect(t.Context(), "other")
			return err == nil && len(state.Nodes) == 3 && state.Nodes[2].Err == nil
		}, "the third is back")
		isMarkedAnew(t, holder, f.Masters[2])
		must(t, f.Masters[1].Kill())
		since := stopwatch(t)
		held.Unlock(t.Context()) // the error does not matter: one of the two masters that must confirm is dead
		woken(t, w, since, wakes)
	})
	t.Run("the holder's process is killed", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childRole+"=holder", holderURLs+"="+strings.Join(f.URLs(), " "))
		printed := &child.Output{}
		cmd.Stdout, cmd.Stderr = printed, printed
		_, err := cmd.StdinPipe()
		must(t, err)
		must(t, cmd.Start())
		if !poll.Until(patience, func() bool { return len(leftOver(t, f.Masters, "job")) == 3 }) {
			t.Fatalf("the child does not hold the lock; %v", printed)
		}
		w := wait(t, t.Context(), open(t, f, redlock.Open, patient), f.Masters, "job")
		must(t, cmd.Process.Kill())
		since := stopwatch(t)
		cmd.Wait()
		woken(t, w, since, holderLease+wakes)
	})
}

func TestWaitersOfAProcessGetTheirTurnInOrder(t *testing.T) {
	f := fleet(t, 3)
	locker := open(t, f, redlock.Open, patient)
	held := lock(t, open(t, f, redlock.Open), "k")
	const waiters = 20
	var calls sync.WaitGroup
	ctxs, order := make([]context.CancelFunc, waiters), make(chan int, waiters)
	for i := range waiters {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ctxs[i] = cancel
		calls.Go(func() {
			lock, err := locker.Lock(ctx, "k")
			if err != nil {
				if !errors.Is(err, context.Canceled) || !errors.Is(err, quorum.ErrHeld) ||
					!errors.Is(err, quorum.ErrNotAcquired) {
					t.Errorf("waiter %d: %v", i, err)
				}
				order <- -1
				return
			}
			order <- i
			if err := lock.Unlock(context.Background()); err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
		eventually(t, patience, func() bool { return locker.Stats().Waiting == i+1 }, "the waiters arrive in this order")
	}
	// Waiters in the middle leave at once, without a command to the nodes.
	before := commands(t, f.Masters)
	for _, i := range []int{7, 8, 15} {
		since := stopwatch(t)
		ctxs[i]()
		got := <-order
		if took, stalled := since.Read(); got != -1 || took > poll.AtMost(wakes, stalled) {
			t.Fatalf("cancelled waiter %d: %d after %v; the machine stood still for %v", i, got, took, stalled)
		}
		since.Stop()
	}
	if more := commands(t, f.Masters) - before; more > 6 { // pings, perhaps
		t.Errorf("%d commands for three waiters that were cancelled", more)
	}
	unlock(t, held)
	last := -1
	for range waiters - 3 {
		got := <-order
		if got <= last {
			t.Errorf("waiter %d came after %d", got, last)
		}
		last = got
	}
	calls.Wait()
}

// commands counts the commands that the masters carried out, without those of the tests.
func commands(t *testing.T, ms []*redistest.Master) int {
	t.Helper()
	sum := 0
	for _, m := range ms {
		stats, err := redis.String(m.Do("INFO", "commandstats"))
		must(t, err)
		for line := range strings.FieldsSeq(stats) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			var n int
			if name == "evalsha" || strings.HasSuffix(name, "subscribe") || name == "ping" || name == "eval" {
				fmt.Sscanf(rest, "%d", &n)
				sum += n
			}
		}
	}
	return sum
}

// A thousand waiters of one process send no more commands than ten do.
func TestManyWaitersOfAProcessCostNoMoreThanFew(t *testing.T) {
	// begin starts waiters. The function that it returns lets ten of them have the lock, and counts
	// all commands.
	begin := func(waiters int) (cost func() int) {
		f := fleet(t, 3)
		locker := open(t, f, redlock.Open, patient) // a busy machine would make more polls
		held := lock(t, open(t, f, redlock.Open), "k")
		before := commands(t, f.Masters)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		done, got := make(chan error, waiters), make(chan struct{}, waiters)
		for range waiters {
			go func() {
				lock, err := locker.Lock(ctx, "k")
				if err == nil {
					got <- struct{}{}
					err = lock.Unlock(context.Background())
				}
				done <- err
			}()
		}
		return func() int {
			unlock(t, held)
			for range 10 {
				<-got
			}
			after := commands(t, f.Masters)
			cancel()
			for range waiters {
				if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			eventually(t, patience, func() bool { return subscriptions(t, f.Masters, "k") == 0 },
				"no subscription is left without a waiter")
			noLocks(t, f.Masters)
			return after - before
		}
	}
	for try := range 3 { // a machine that stands still makes more attempts, at random; waiters would always
		costOfFew, costOfMany := begin(10), begin(1000)
		pass(t, 2*time.Second)
		few, many := costOfFew(), costOfMany()
		t.Logf("commands for 10 waiters %d, for 1,000 waiters %d", few, many)
		if float64(many) <= 1.3*float64(few)+10 {
			return
		}
		if try == 2 {
			t.Errorf("1,000 waiters cost %d commands, 10 cost %d", many, few)
		}
	}
}

// Sixty contenders, each with a Locker of its own, hold the lock for 100 ms each: all of them
// within ten seconds, of a machine that does not stand still.
func TestACrowdGetsThroughInTime(t *testing.T) {
	f := fleet(t, 3)
	const crowd, inTime = 60, 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), inTime+2*patience)
	defer cancel()
	errs := make(chan error, crowd)
	since := stopwatch(t)
	for range crowd {
		locker := open(t, f, redlock.Open,
			quorum.WithNodeOptions(node.WithTimeout(2*time.Second), node.WithoutQuarantine()))
		go func() {
			lock, err := locker.Lock(ctx, "k")
			if err == nil {
				pass(t, 100*time.Millisecond)
				err = lock.Unlock(context.Background())
			}
			errs <- err
		}()
	}
	for range crowd {
		must(t, <-errs)
	}
	took, stalled := since.Read()
	t.Logf("%d contenders × 100 ms: %v; the machine stood still for %v", crowd, took, stalled)
	if took > poll.AtMost(inTime, stalled) {
		t.Errorf("it took %v until all had held it, want %v", took, inTime)
	}
}
