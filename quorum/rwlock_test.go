package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

func startReader(ctx context.Context, l *Locker, reader int, to chan<- lockResult) {
	start(reader, to, func() (*Lock, error) { return l.RWLock("a").RLock(ctx) })
}

func (c *cluster) read(l *Locker) *Lock {
	c.t.Helper()
	return c.got(l.RWLock("a").RLock(c.t.Context()))
}

func (c *cluster) wantNone(from <-chan lockResult, what string) {
	c.t.Helper()
	synctest.Wait()
	select {
	case got := <-from:
		c.t.Fatalf("%s: %v", what, got.err)
	default:
	}
}

func TestReadersHoldTogetherAndAWriterAlone(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		one, other := c.process(), c.process()
		first, second := c.read(one), c.read(other)
		third := c.read(one)
		for _, l := range []*Lock{first, second, third} {
			testkit.Check(t, l.Valid() && l.Shared(),
				"a reader is not valid, or not shared: %v, %v", l.Valid(), l.Shared())
		}
		wantError(t, errorOf(other.RWLock("a").TryLock(t.Context())), ErrHeld) // a writer next to readers
		wantError(t, errorOf(other.TryLock(t.Context(), "b", "a")), ErrHeld)   // a lock over two names next to readers
		c.unlock(c.got(other.RWLock("a").TryRLock(t.Context())))               // neither keeps readers back
		highest := max(first.Token(), second.Token(), third.Token())
		for _, l := range []*Lock{first, second, third} {
			c.unlock(l)
		}
		writer := c.got(other.RWLock("a").TryLock(t.Context()))
		testkit.Check(t, writer.Token() > highest && !writer.Shared(),
			"the writer's token is %d after %d; shared %v", writer.Token(), highest, writer.Shared())
		wantError(t, errorOf(one.RWLock("a").TryRLock(t.Context())), ErrHeld) // a reader next to a writer
		c.unlock(writer)
		last := c.read(one)
		testkit.Check(t, last.Token() > writer.Token(),
			"the reader's token is %d after the writer's %d", last.Token(), writer.Token())
		c.unlock(last)
	})
}

// A plain lock of the name is the writer: who takes it for another lock finds out.
func TestAPlainLockIsTheWriter(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		reader := c.read(l)
		wantError(t, errorOf(c.process().TryLock(t.Context(), "a")), ErrHeld)          // next to a reader
		wantError(t, errorOf(l.Lock(reader.Context(), "a")), ErrInvalid, ErrPermanent) // within a reader's flow
		c.unlock(reader)
	})
}

func TestReentryOfReadersAndWriters(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		rw := l.RWLock("a")
		reader := c.read(l)
		inner, err := rw.RLock(reader.Context())
		require(t, err == nil && reader.Depth() == 2 && inner.Token() == reader.Token(),
			"read in read: %v, depth %d", err, reader.Depth())
		wantError(t, errorOf(rw.Lock(inner.Context())), ErrInvalid, "nobody is upgraded") // write in read
		wantError(t, errorOf(rw.TryLock(reader.Context())), ErrInvalid)                   // write in read, in one attempt
		c.must(reader.Downgrade(t.Context()))                                             // it stays a reader
		c.unlock(inner)
		testkit.Check(t, reader.Valid() && reader.Depth() == 1,
			"left: valid %v, depth %d", reader.Valid(), reader.Depth())
		c.unlock(reader)

		writer := c.lock(l, "a")
		within, err := rw.RLock(writer.Context())
		require(t, err == nil && writer.Depth() == 2 && !within.Shared(),
			"read in write: %v, depth %d, shared %v", err, writer.Depth(), within.Shared())
		wantError(t, writer.Downgrade(t.Context()), ErrInvalid) // downgraded while inner handles may write
		c.unlock(c.got(rw.Lock(within.Context())))
		c.unlock(within)
		c.unlock(writer)
	})
}

func TestDowngradeLetsReadersIn(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(), c.process()
		writer := c.lock(l, "a")
		readers := make(chan lockResult, 3)
		for i := range 3 {
			startReader(t.Context(), other, i, readers)
		}
		c.must(writer.Downgrade(t.Context()))
		testkit.Check(t, writer.Valid() && writer.Shared(), "valid %v, shared %v", writer.Valid(), writer.Shared())
		c.must(writer.Downgrade(t.Context()))                            // a second time
		wantError(t, errorOf(l.Lock(writer.Context(), "a")), ErrInvalid) // upgraded again
		for range 3 {
			defer c.unlock(c.nextLock(readers, shortly))
		}
		c.unlock(writer)
	})
}

// lookedUp is a context that calls do when a lock is looked up in it for the n-th time.
type lookedUp struct {
	context.Context
	n  int
	do func()
}

func (c *lookedUp) Value(key any) any {
	if _, isLock := key.(lockKey); isLock {
		if c.n--; c.n == 0 {
			c.do()
		}
	}
	return c.Context.Value(key)
}

// A downgrade may come while a writer's call is about to enter the lock: the call is refused, too.
func TestADowngradeDuringReentry(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		writer := c.lock(l, "a")
		ctx := &lookedUp{writer.Context(), 2, func() {
			c.must(writer.Downgrade(context.Background()))
		}}
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, ErrInvalid) || !writer.Shared() || writer.Depth() != 1 {
			t.Errorf("a writer's call within a reader's lock: %v; shared %v, depth %d", err, writer.Shared(), writer.Depth())
		}
		c.unlock(writer)
	})
}

// A downgrade that misses a master is made up for by the next renewal: until then the master keeps
// readers out, and the holder keeps its lock.
func TestADowngradeReachesAMasterLater(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		writer := c.lock(l, "a")
		c.masters[2].Crash(fakeredis.Everything)
		c.must(writer.Downgrade(t.Context()))
		c.masters[2].Start()
		time.Sleep(DefaultLease)
		state := c.inspect(c.process())
		for _, n := range state.Nodes {
			testkit.Check(t, n.Readers == 1 && n.Owner == "", "%+v", n)
		}
		testkit.Check(t, state.Readers == 1 && writer.Valid(), "%d readers, valid %v", state.Readers, writer.Valid())
		c.unlock(writer)
	})
}

func TestWhatIsNotDowngraded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		two := c.lock(l, "a", "b")
		wantError(t, two.Downgrade(t.Context()), ErrInvalid) // two names
		c.unlock(two)
		wantError(t, two.Downgrade(t.Context()), ErrNotHeld) // unlocked
		held := c.lock(l, "a")
		crash(c.masters[1:], fakeredis.Everything)
		if err := held.Downgrade(t.Context()); !errors.Is(err, ErrUnavailable) || !held.Shared() || !held.Valid() {
			t.Errorf("out of reach: %v; shared %v, valid %v", err, held.Shared(), held.Valid())
		}
	})
}

// A writer that waits keeps new readers back, so readers that take turns do not starve it.
func TestAWriterDoesNotStarve(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		old, l := c.read(c.process()), c.process()
		writers, readers := make(chan lockResult, 1), make(chan lockResult, 1)
		startWaiter(t.Context(), c.process(), 0, writers, "a")
		for range 20 { // the reservation is renewed for as long as the writer waits
			wantError(t, errorOf(l.RWLock("a").TryRLock(t.Context())), ErrHeld) // a new reader before the writer
			time.Sleep(500 * time.Millisecond)
		}
		startReader(t.Context(), l, 0, readers)
		c.unlock(old)
		writer := c.nextLock(writers, shortly)
		c.wantNone(readers, "a reader next to the writer")
		c.unlock(writer)
		c.unlock(c.nextLock(readers, shortly)) // the reservation is gone with the grant
	})
}

// A writer that gives up keeps no reader back, however it gives up. Another process's writer does.
func TestAWriterThatGivesUpKeepsNoReadersBack(t *testing.T) {
	for how, giveUp := range map[string]func(c *cluster, l *Locker){
		"WithWait": func(c *cluster, l *Locker) {
			wantError(c.t, errorOf(l.With(WithWait(300*time.Millisecond)).Lock(c.t.Context(), "a")), ErrHeld)
		},
		"context": func(c *cluster, l *Locker) {
			ctx, cancel := context.WithTimeout(c.t.Context(), 300*time.Millisecond)
			defer cancel()
			wantError(c.t, errorOf(l.Lock(ctx, "a")), ErrHeld)
		},
		"Close": func(c *cluster, l *Locker) {
			writers := c.waits(l, "a")
			time.Sleep(300 * time.Millisecond)
			l.Close()
			wantError(c.t, c.next(writers, shortly).err, ErrClosed)
		},
	} {
		runInCluster(t, how, func(t *testing.T, c *cluster) {
			old, l, reads, readers := c.read(c.process()), c.process(), c.process(), make(chan lockResult, 1)
			time.AfterFunc(200*time.Millisecond, func() { // while the writer waits
				lock, err := reads.RWLock("a").RLock(t.Context())
				readers <- lockResult{lock: lock, err: err}
			})
			giveUp(c, l)
			c.unlock(c.nextLock(readers, shortly))
			c.unlock(old)
		})
	}
}

// A probe reserves on one node. The reservations of the attempt before it, on the others, end with it.
func TestAWriterThatGivesUpInAProbeKeepsNoReadersBack(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		old, writers := c.read(c.process()), make(chan lockResult, 1)
		ctx, cancel := context.WithCancel(t.Context())
		startWaiter(ctx, c.process(), 0, writers, "a")
		probes := func(script string) {
			if script == "acquire" {
				cancel()
			}
		}
		c.onAll(&probes)
		c.command(0, "PUBLISH", scripts.Channel("a"), "0") // too few for a release: the writer probes
		c.next(writers, shortly)
		synctest.Wait()
		c.unlock(c.read(c.process(WithWait(shortly))))
		c.unlock(old)
	})
}

// Reservations stand until they end: an attempt that a writer refuses at another name replaces none.
func TestAWriterThatGivesUpBehindAWriterKeepsNoReadersBack(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		old, writers := c.read(c.process()), make(chan lockResult, 1)
		ctx, cancel := context.WithCancel(t.Context())
		startWaiter(ctx, c.process(), 0, writers, "a", "b")
		synctest.Wait()
		other := c.lock(c.process(), "b")
		testkit.Pass(waiting.ReservationLife/2 + 2*shortly) // the writer has met it
		cancel()
		c.next(writers, shortly)
		synctest.Wait()
		c.unlock(c.read(c.process(WithWait(shortly))))
		c.unlock(other)
		c.unlock(old)
	})
}

// A writer that died holds up readers no longer than its reservation.
func TestAWriterWhoDiedHoldsUpReadersForItsReservation(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		old, readers := c.read(c.process()), make(chan lockResult, 1)
		for i := range c.masters {
			c.command(i, "SET", "quorumlock:writer:a", "dead:1", "PX", waiting.ReservationLife.Milliseconds())
		}
		began := time.Now()
		startReader(t.Context(), c.process(), 0, readers)
		c.wantNone(readers, "a reader during the reservation")
		got := c.next(readers, 3*time.Second)
		took := time.Since(began)
		testkit.Check(t, got.err == nil && took <= 2100*time.Millisecond, "after %v: %v", took, got.err)
		c.unlock(got.lock)
		c.unlock(old)
	})
}

// The error of a reader that a writer keeps back says so, and not that the writer holds the name.
func TestAReaderIsToldThatAWriterWaits(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		old, l := c.read(c.process()), c.process()
		writers := c.waits(c.process(), "a")
		wantKeptBack := func(err error) {
			t.Helper()
			var failed *Error
			if !errors.As(err, &failed) || !errors.Is(err, ErrHeld) || failed.Holder != "" || failed.HolderIdentity != (Identity{}) ||
				failed.Remaining <= 0 || failed.Remaining > waiting.ReservationLife {
				t.Fatalf("%+v: %v", failed, err)
			}
			text := err.Error()
			if !strings.HasPrefix(text, `quorumlock: lock "a" for reading: not acquired: a writer waits`) ||
				!strings.Contains(text, "; reserved for ") || strings.Contains(text, "held") {
				t.Error(text)
			}
		}
		wantKeptBack(errorOf(l.RWLock("a").TryRLock(t.Context())))
		wantKeptBack(errorOf(l.With(WithWait(time.Second)).RWLock("a").RLock(t.Context())))
		c.unlock(old)
		writer := c.nextLock(writers, shortly)
		synctest.Wait()
		wantHolder(t, errorOf(l.RWLock("a").TryRLock(t.Context())), writer) // now it does
		c.unlock(writer)
	})
}

// A writer's error says that readers hold the name, and a reader's lock that it is one.
func TestErrorsAndLocksSayWhoReads(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		one, l := c.process(), c.process(WithWait(0))
		wantText := func(err error, text string) {
			t.Helper()
			testkit.Check(t, errors.Is(err, ErrHeld) && strings.HasPrefix(err.Error(), text), "%v, want %q", err, text)
		}
		first := c.read(one)
		synctest.Wait() // all masters have it, and know the process
		_, err := l.Lock(t.Context(), "a")
		wantText(err, fmt.Sprintf(`quorumlock: lock "a": not acquired: held by 1 reader, %v, 30s left (`, one.Identity()))
		second := c.read(one)
		synctest.Wait()
		_, err = l.Lock(t.Context(), "a")
		wantText(err, fmt.Sprintf(`quorumlock: lock "a": not acquired: held by 2 readers, among them %v, 30s left (`, one.Identity()))
		if text := first.String(); !strings.HasPrefix(text, `lock "a" for reading, token `) {
			t.Error(text)
		}
		var logged bytes.Buffer
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("held", "lock", first)
		attrs := `"lock":{"names":["a"],"shared":true,"token":`
		testkit.Check(t, strings.Contains(logged.String(), attrs), "%s, want %s", &logged, attrs)
		c.unlock(second)
		crashAll(c)
		<-first.Context().Done()
		wantError(t, first.Err(), ErrLost, `hold "a" for reading: lost`)
		startAll(c, 5*time.Second)
	})
}

func TestDoOfAReadWriteLock(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		rw, other := l.RWLock("a"), c.process(WithWait(0)).RWLock("a")
		nothing := func(context.Context, *Lock) error { return nil }
		for shared, do := range map[bool]func(context.Context, func(context.Context, *Lock) error) error{true: rw.RDo, false: rw.Do} {
			err := do(t.Context(), func(ctx context.Context, lock *Lock) error {
				testkit.Check(t, ctx == lock.Context() && lock.Shared() == shared, "the work has %v", lock)
				if err := other.RDo(ctx, nothing); shared != (err == nil) || !shared && !errors.Is(err, ErrHeld) {
					t.Errorf("a reader next to it, shared %v: %v", shared, err)
				}
				wantError(t, other.Do(ctx, nothing), ErrHeld, of{shared}) // a writer next to it, shared
				return nil
			})
			testkit.Check(t, err == nil, "%v", err)
		}
		c.wantNothingLeft(l)
	})
}

// An attempt that does not wait keeps nobody back.
func TestATryLockKeepsNoReadersBack(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		reader, l := c.read(c.process()), c.process()
		wantError(t, errorOf(l.RWLock("a").TryLock(t.Context())), ErrHeld)
		c.unlock(c.read(l))
		c.unlock(reader)
	})
}

// All readers of a process that waited for a writer hold the name as soon as it is free: none waits for
// the others.
func TestReadersThatWaitedAreGrantedTogether(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		writer, readers := c.lock(c.process(), "a"), make(chan lockResult, 100)
		for i := range 100 {
			startReader(t.Context(), l, i, readers)
		}
		c.wantNone(readers, "a reader next to the writer")
		c.unlock(writer)
		for range 100 {
			defer c.unlock(c.nextLock(readers, shortly))
		}
		c.wantNoQueues(l)
		synctest.Wait() // nobody waits for an unsubscription
		testkit.Equal(t, c.subscriptions("a"), 0, "subscriptions are left")
	})
}

// Readers that nobody refuses ask alongside each other, and none of them subscribes.
func TestReadersDoNotQueue(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				lock, err := l.RWLock("a").RLock(t.Context())
				if err == nil {
					err = lock.Unlock(t.Context())
				}
				testkit.Check(t, err == nil, "%v", err)
			})
		}
		all.Wait()
		wantTook(t, began, 0, 0)
		c.wantNoQueues(l)
	})
}

// Readers that give up leave nothing behind, in any order.
func TestReadersThatGiveUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		writer, readers := c.lock(c.process(), "a"), make(chan lockResult, 10)
		var ends []context.CancelFunc
		for i := range 10 {
			ctx, end := context.WithCancel(t.Context())
			ends = append(ends, end)
			startReader(ctx, l, i, readers)
		}
		for _, end := range slices.Backward(ends) {
			end()
			wantError(t, c.next(readers, shortly).err, ErrHeld, context.Canceled)
		}
		c.wantNoQueues(l)
		c.unlock(writer)
	})
}

// A master in quarantine grants neither, and a forced release ends readers as it ends a writer.
func TestForceUnlockOfReaders(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		first, second := c.read(l), c.read(c.process())
		c.must(l.ForceUnlock(t.Context(), "a"))
		writer := c.lock(c.process(), "a")
		time.Sleep(DefaultLease)
		testkit.Check(t, !first.Valid() && !second.Valid() && writer.Valid(),
			"first %v, second %v, the writer %v", first.Err(), second.Err(), writer.Err())
		c.unlock(writer)
		again := c.read(l) // later readers are not barred
		time.Sleep(DefaultLease)
		if inner, err := l.RWLock("a").RLock(again.Context()); err != nil {
			t.Error(err)
		} else {
			c.unlock(inner)
		}
		c.unlock(again)
	})
}

// A supervisor frees the locks of a process that is dead, and those alone: a writer's, a reader's, a slot's. The
// owner does not come back, and nobody else's lock goes.
func TestForceUnlockOwner(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, s := c.process(), c.process().Semaphore("s", 2)
		for what, take := range map[string]func() (dead, other *Lock){
			"a writer": func() (dead, other *Lock) { return c.lock(l, "a"), nil },
			"a reader": func() (dead, other *Lock) { return c.read(l), c.read(l) },
			"a slot":   func() (dead, other *Lock) { return c.takes(s), c.takes(s) },
		} {
			dead, other := take()
			force := func() {
				if dead.Slots() == nil {
					c.must(l.ForceUnlockOwner(t.Context(), dead.Owner(), "a"))
				} else {
					c.must(s.ForceUnlockOwner(t.Context(), dead.Owner(), 0, 1))
				}
			}
			force()
			if other == nil {
				other = c.lock(c.process(), "a") // at once
			}
			force() // late: another has the name
			time.Sleep(DefaultLease)
			testkit.Check(t, !dead.Valid() && other.Valid() && errors.Is(dead.Err(), ErrLost),
				"%s: %v, the other %v", what, dead.Err(), other.Err())
			c.unlock(other)
		}
		for _, owner := range []string{"", ":1", "x:", "visits", strings.Repeat("x", 1024) + ":1"} {
			wantError(t, l.ForceUnlockOwner(t.Context(), owner, "a"), ErrInvalid, of{owner})
		}
	})
}

func TestInspectOfReaders(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		first, second := c.read(l), c.read(l)
		writers := c.waits(c.process(), "a")
		state, err := l.Inspect(t.Context(), "a")
		if err != nil || state.Readers != 2 || !state.WriterWaits || state.Owner != "" || state.TTL <= 0 || state.TTL > DefaultLease {
			t.Errorf("%+v, %v", state, err)
		}
		for _, n := range state.Nodes {
			testkit.Check(t, n.Readers == 2 && n.Reservation > 0, "%+v", n)
		}
		c.unlock(first)
		c.unlock(second)
		c.unlock(c.nextLock(writers, shortly))
	})
}
