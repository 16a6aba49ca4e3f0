package quorumtest

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) {
	world.OneProcessor()
	goleak.VerifyTestMain(m)
}

func mustLock(t *testing.T, l *quorum.Locker, names ...string) *quorum.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return testkit.Got(l.Lock(ctx, names...))(t)
}

// wantTry expects TryLock to end with that error, nil for a lock, which it unlocks.
func wantTry(t *testing.T, l *quorum.Locker, want error, names ...string) {
	t.Helper()
	lock, err := l.TryLock(t.Context(), names...)
	testkit.Check(t, errors.Is(err, want), "TryLock of %q: %v, want %v", names, err, want)
	if err == nil {
		testkit.Must(t, lock.Unlock(t.Context()))
	}
}

func isLost(t *testing.T, lock *quorum.Lock) {
	t.Helper()
	cause := context.Cause(lock.Context())
	testkit.Check(t, errors.Is(cause, quorum.ErrLost) && !lock.Valid(),
		"cause %v, valid %v: want ErrLost and false", cause, lock.Valid())
}

// wantFatal expects do to fail the test that it is given, with a text that has all those parts.
func wantFatal(t *testing.T, do func(tb testing.TB), parts ...string) {
	t.Helper()
	f := &testkit.Recorder{TB: t}
	t.Cleanup(f.End)
	f.Run(func() { do(f) })
	for _, part := range append(parts, "quorumtest: ") {
		testkit.Check(t, strings.Contains(f.Died, part), "it failed with %q, want %q in it", f.Died, part)
	}
}

// wantHeldElsewhere expects, in a bubble, that a name which is held cannot be held elsewhere too.
func wantHeldElsewhere(t *testing.T, m *Masters, name string) {
	t.Helper()
	began := time.Now()
	wantFatal(t, func(tb testing.TB) { m.in(tb).HoldElsewhere(name) }, "took more than 20s", "held by ")
	testkit.Check(t, time.Since(began).Round(time.Second) == patience, "it failed after %v", time.Since(began))
}

// in returns the masters as another test has them.
func (m *Masters) in(tb testing.TB) *Masters { return &Masters{tb: tb, fleet: m.fleet} }

// A service may open its locker from addresses alone.
func TestGrantsAtOnceToALockerOfURLs(t *testing.T) {
	m := Start(t, 3)
	locker := testkit.Opened(redlock.Open(m.URLs(), quorum.WithNodeOptions(node.WithTimeout(nodeTimeout))))(t)
	wantTry(t, locker, nil, "a")
}

// A locker with the masters' options has time on a busy machine, and their clock.
func TestOptions(t *testing.T) {
	m := Start(t, 3)
	var mu sync.Mutex
	least := nodeTimeout // of a connection
	locker := testkit.Got(redlock.Open(m.URLs(), append(m.Options(), quorum.WithNodeOptions(node.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			by, _ := ctx.Deadline()
			mu.Lock()
			least = min(least, time.Until(by))
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, address)
		})))...))(t)
	defer locker.Close()
	lock := mustLock(t, locker, "a")
	mu.Lock()
	testkit.Check(t, least > node.DefaultTimeout, "a connection had %v", least)
	mu.Unlock()
	m.FastForward(quorum.DefaultLease)
	testkit.Check(t, !lock.Valid(), "valid after the lease")
}

func TestDeploymentOfAnotherMaxLease(t *testing.T) {
	m := Start(t, 3, node.WithMaxLease(time.Minute))
	service := testkit.Opened(redlock.Open(m.URLs(), append(m.Options(), quorum.WithLease(time.Minute))...))(t)
	lock := mustLock(t, service, "a")
	wantTry(t, m.Locker(quorum.WithLease(time.Minute)), quorum.ErrHeld, "a")
	m.Lose(lock)
	m.HoldElsewhere("a")
	wantTry(t, service, quorum.ErrHeld, "a")
}

func TestEvenNumberOfMasters(t *testing.T) {
	m := Start(t, 2)
	locker := testkit.Opened(multilock.Open(m.URLs(), m.Options()...))(t)
	held := m.HoldElsewhere("a")
	wantTry(t, locker, quorum.ErrHeld, "a")
	testkit.Must(t, held.Unlock(t.Context()))
	wantTry(t, locker, nil, "a")
	wantFatal(t, func(tb testing.TB) { m.in(tb).Locker() }, "odd number")
}

func TestStartAndFastForwardFail(t *testing.T) {
	wantFatal(t, func(tb testing.TB) { Start(tb, 1).FastForward(-1) }, "time does not go back")
	wantFatal(t, func(tb testing.TB) { Start(tb, 0) }, "at least 1")
	wantFatal(t, func(tb testing.TB) { Start(tb, 1, node.WithMaxLease(0)) }, "max lease")
}

func TestHoldElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Start(t, 3)
		service := m.Locker()
		held := m.HoldElsewhere("a", "b")
		wantTry(t, service, quorum.ErrHeld, "b", "c")

		acquired := make(chan *quorum.Lock)
		go func() {
			lock, err := service.Lock(t.Context(), "a")
			testkit.Check(t, err == nil && held.Err() != nil, "%v; or locked while it was held elsewhere", err)
			acquired <- lock
		}()
		synctest.Wait()
		testkit.Must(t, held.Unlock(t.Context()))
		lock := <-acquired
		if t.Failed() {
			return
		}
		testkit.Check(t, lock.Token() > held.Token(), "token %d after %d elsewhere", lock.Token(), held.Token())

		wantHeldElsewhere(t, m, "a")
		// Its own lock is one more process's: nobody enters it again.
		again := m.HoldElsewhere("c")
		testkit.Must(t, again.Context().Err())
		wantHeldElsewhere(t, m, "c")
	})
}

// A service takes over what another process has handed over, once.
func TestHandOverElsewhere(t *testing.T) {
	m := Start(t, 3)
	service := m.Locker()
	held := m.HoldElsewhere("a")
	ticket := testkit.Got(held.HandOver(t.Context()))(t)
	wantTry(t, service, quorum.ErrHeld, "a")
	lock := testkit.Got(service.TakeOver(t.Context(), ticket))(t)
	testkit.Check(t, lock.Token() > held.Token() && !held.Valid(),
		"token %d after %d; the first is valid: %v", lock.Token(), held.Token(), held.Valid())
	testkit.Is(t, testkit.ErrorOf(service.TakeOver(t.Context(), ticket)), quorum.ErrLost, "once more")
	m.Lose(lock)

	ticket = testkit.Got(m.HoldElsewhere("a").HandOver(t.Context()))(t)
	m.FastForward(quorum.DefaultLease)
	testkit.Is(t, testkit.ErrorOf(service.TakeOver(t.Context(), ticket)), quorum.ErrLost, "after the lease")
}

func TestLose(t *testing.T) {
	for name, opts := range map[string][]quorum.Option{
		"renewed":     nil,
		"fixed lease": {quorum.WithFixedLease(20 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			m := Start(t, 3)
			lost := make(chan error, 1)
			service := m.Locker(append(opts, quorum.WithHooks(quorum.Hooks{
				Lost: func(_ *quorum.Lock, err error) { lost <- err },
			}))...)
			lock, other := mustLock(t, service, "a", "b"), mustLock(t, service, "c")
			inner := testkit.Got(service.Lock(lock.Context(), "b"))(t)

			m.Lose(inner)
			isLost(t, lock)
			isLost(t, inner)
			testkit.Is(t, <-lost, quorum.ErrLost, "the Lost hook")
			testkit.Is(t, lock.Unlock(t.Context()), quorum.ErrLost, "Unlock")
			testkit.Check(t, other.Valid(), "another lock: %v", other.Err())
			next := mustLock(t, m.Locker(), "a", "b")
			testkit.Check(t, next.Token() > lock.Token(), "token %d after %d", next.Token(), lock.Token())
		})
	}
}

// The library promises that no two holders are valid at once, so a service's test must not see two.
func TestLoseEndsTheHolderBeforeTheNextBegins(t *testing.T) {
	m := Start(t, 3)
	service, next := m.Locker(), m.Locker()
	for range 50 {
		lock := mustLock(t, service, "a")
		var waiting sync.WaitGroup
		waiting.Go(func() {
			ctx := testkit.Within(t, patience)
			after, err := next.Lock(ctx, "a")
			if err != nil {
				t.Error(err)
				return
			}
			testkit.Check(t, !lock.Valid() && lock.Context().Err() != nil, "two holders")
			testkit.Is(t, after.Unlock(t.Context()), nil, "Unlock")
		})
		m.Lose(lock)
		waiting.Wait()
	}
}

func TestLoseWakesWaiters(t *testing.T) {
	m := Start(t, 3)
	lock := mustLock(t, m.Locker(), "a", "b")
	var heard []redis.PubSubConn
	for _, url := range m.URLs() {
		conn := testkit.Opened(redis.DialURL(url))(t)
		c := redis.PubSubConn{Conn: conn}
		testkit.Must(t, c.Subscribe(scripts.Channel("b")))
		_, ok := c.ReceiveWithTimeout(patience).(redis.Subscription)
		testkit.Require(t, ok, "not subscribed")
		heard = append(heard, c)
	}
	m.Lose(lock)
	for i, c := range heard {
		got, ok := c.ReceiveWithTimeout(patience).(redis.Message)
		testkit.Check(t, ok && string(got.Data) == "0", "master %d published %v", i, got)
	}
}

func TestLoseWithMastersStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Start(t, 5)
		service := m.Locker()
		lock, other := mustLock(t, service, "a"), mustLock(t, service, "b")
		synctest.Wait() // all masters have granted
		m.Stop(1)
		m.Stop(3)
		m.Lose(lock)
		isLost(t, lock)
		wantTry(t, service, nil, "a")
		m.Stop(0)
		wantFatal(t, func(tb testing.TB) { m.in(tb).Lose(other) }, `lose ["b"]`, "too few masters")
	})
}

func TestLoseFails(t *testing.T) {
	m := Start(t, 1)
	lock := mustLock(t, m.Locker(), "a")
	wantFatal(t, func(tb testing.TB) { Start(t, 1).in(tb).Lose(lock) }, "no running master has it")
	testkit.Must(t, lock.Unlock(t.Context()))
	wantFatal(t, func(tb testing.TB) { m.in(tb).Lose(lock) }, "not held: released")
	wantFatal(t, func(tb testing.TB) {
		other, _ := quorum.FromContext(lock.Context(), "b")
		m.in(tb).Lose(other)
	}, "the lock is nil")
}

func TestFastForwardByLessThanHalfALease(t *testing.T) {
	m := Start(t, 3)
	lock := mustLock(t, m.Locker(), "a")
	for range 10 {
		m.FastForward(quorum.DefaultLease/2 - time.Second)
		testkit.Require(t, lock.Valid(), "lost: %v", lock.Err())
		wantTry(t, m.Locker(), quorum.ErrHeld, "a")
		// The renewal that came due is on its way. By it the lock has nearly a lease left again.
		testkit.Eventually(t, "renewed", func() bool { return time.Until(lock.Deadline()) >= quorum.DefaultLease*2/3 })
	}
}

// While time leaps, renewals are on their way. None of them may count for longer than the masters
// keep the lock, nor may a name be free before its holder knows.
func TestFastForwardKeepsHoldersApart(t *testing.T) {
	const lease, rounds = 300 * time.Millisecond, 200
	m := Start(t, 3)
	var mu sync.Mutex
	var holder *quorum.Lock
	var acquired atomic.Int64
	var contenders sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 4 {
		locker := m.Locker(quorum.WithLease(lease), quorum.WithRetry(time.Millisecond, 2*time.Millisecond))
		contenders.Go(func() {
			for {
				lock, err := locker.Lock(ctx, "a")
				if err != nil {
					return
				}
				mu.Lock()
				testkit.Check(t, holder == nil || !holder.Valid() || !lock.Valid(), "two holders: %v and %v", holder, lock)
				holder = lock
				acquired.Add(1)
				mu.Unlock()
				<-lock.Context().Done() // it never unlocks: only the leap ends it
			}
		})
	}
	again := time.NewTicker(3 * time.Millisecond)
	defer again.Stop()
	// On a busy machine many leaps outlast an attempt, so more are made until enough locks were held.
	leaps, giveUp := 0, time.Now().Add(time.Minute)
	for ; leaps < rounds || acquired.Load() < rounds/20 && time.Now().Before(giveUp); leaps++ {
		m.FastForward(lease / 10 * time.Duration(1+leaps%11))
		<-again.C
	}
	cancel()
	contenders.Wait()
	n := acquired.Load()
	testkit.Check(t, n >= rounds/20, "acquired %d times while time leapt %d times: the test shows little", n, leaps)
}

// A lease is asked for after its client's clock has moved. It must not begin before the masters'
// has.
func TestFastForwardLetsNoScriptInBetweenTheClocks(t *testing.T) {
	m := Start(t, 1)
	locker := m.Locker()
	granted := make(chan *quorum.Lock, 1)
	m.Clock().AfterFunc(quorum.DefaultLease, func() {
		go func() {
			lock, err := locker.TryLock(t.Context(), "a")
			testkit.Check(t, err == nil, "%v", err)
			granted <- lock
		}()
		select {
		case <-granted:
			t.Fatal("granted before the masters' clock had moved")
		case <-time.After(100 * time.Millisecond):
		}
	})
	m.FastForward(quorum.DefaultLease)
	if lock := <-granted; lock != nil {
		wantTry(t, m.Locker(), quorum.ErrHeld, "a")
	}
}

func TestStopAndStart(t *testing.T) {
	m := Start(t, 3)
	service := m.Locker()
	lock := mustLock(t, service, "a")
	m.Stop(2)
	m.Stop(2)
	wantTry(t, service, nil, "b")
	m.Stop(0)
	wantTry(t, service, quorum.ErrUnavailable, "b")

	m.Stop(1)
	for i := range 3 {
		m.Start(i)
		m.Start(i)
	}
	testkit.Must(t, mustLock(t, service, "b").Unlock(t.Context())) // waits until the masters are found
	wantTry(t, m.Locker(), quorum.ErrHeld, "a")                    // they have forgotten nothing
	testkit.Must(t, lock.Extend(t.Context(), time.Second))

	wantFatal(t, func(tb testing.TB) { m.in(tb).Stop(3) }, "stop master 3: there are 3, counted from 0")
	wantFatal(t, func(tb testing.TB) { m.in(tb).Start(-1) }, "start master -1")
}

func TestLeasesRunWhileMastersAreStopped(t *testing.T) {
	m := Start(t, 3)
	lock := mustLock(t, m.Locker(), "a")
	for i := range 3 {
		m.Stop(i)
	}
	m.FastForward(quorum.DefaultLease)
	<-lock.Context().Done()
	isLost(t, lock)
	for i := range 3 {
		m.Start(i)
	}
	wantTry(t, m.Locker(), nil, "a")
}

// A program that locks must not be built with what is for tests, nor with masters, unless it imports inmemory.
func TestProgramsThatLockDoNotBuildTheMasters(t *testing.T) {
	const module = "github.com/quorumlock/quorumlock/"
	for program, masters := range map[string]bool{"redlock": false, "multilock": false, "leader": false, "quorum/semaphore": false, "inmemory": true} {
		out := testkit.Got(exec.CommandContext(t.Context(), "go", "list", "-deps", module+program).Output())(t)
		deps := strings.Fields(string(out))
		testkit.Check(t, slices.Contains(deps, module+"internal/fakeredis") == masters, "%s builds masters: %v", program, !masters)
		for _, unwanted := range []string{"testing", module + "quorumtest", module + "internal/world", module + "internal/redistest"} {
			testkit.Check(t, !slices.Contains(deps, unwanted), "%s builds %s", program, unwanted)
		}
	}
}

// Slots of a semaphore are held elsewhere, and lost, as locks are.
func TestSlots(t *testing.T) {
	t.Parallel()
	masters := Start(t, 3)
	slots := semaphore.New(masters.Locker(), "s", 3)
	elsewhere := masters.HoldSlotsElsewhere("s", 2, 3)
	mine := testkit.Got(slots.TryAcquire(t.Context()))(t)
	testkit.Is(t, testkit.ErrorOf(slots.TryAcquire(t.Context())), quorum.ErrHeld, "next to all slots")
	waiting := make(chan error, 1)
	go func() {
		_, err := slots.Acquire(context.Background())
		waiting <- err
	}()
	masters.Lose(mine)
	testkit.Is(t, mine.Err(), quorum.ErrLost, "the slot")
	testkit.Must(t, <-waiting)
	testkit.Must(t, elsewhere.Unlock(t.Context()))
	testkit.Got(slots.Acquire(t.Context(), 2))(t)
}
