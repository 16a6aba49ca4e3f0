package quorumtest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

const name = "invoice:42"

// inBubble runs a test in a bubble, with three masters and two lockers, of which the first has a lock.
func inBubble(t *testing.T, test func(t *testing.T, masters *quorumtest.Masters, locker, other *quorum.Locker, lock *quorum.Lock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		masters := quorumtest.Start(t, 3)
		locker, other := masters.Locker(), masters.Locker()
		lock := testkit.Got(locker.Lock(t.Context(), name))(t)
		synctest.Wait() // all masters have it
		test(t, masters, locker, other, lock)
	})
}

// The lock of a process that crashed is held until its lease ends, and no longer.
func TestBubbleLeaseEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *quorumtest.Masters, crashed, next *quorum.Locker, _ *quorum.Lock) {
		crashed.Close()

		began := time.Now()
		testkit.Is(t, testkit.ErrorOf(next.TryLock(t.Context(), name)), quorum.ErrHeld, "at once")
		testkit.Got(next.Lock(t.Context(), name))(t)
		took := time.Since(began)
		testkit.Check(t, took >= quorum.DefaultLease-time.Second && took <= quorum.DefaultLease+5*time.Second,
			"the next holder waited for %v", took)
	})
}

// A lock is renewed for as long as the work takes.
func TestBubbleHourOfRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *quorumtest.Masters, _, other *quorum.Locker, lock *quorum.Lock) {
		for range 60 {
			time.Sleep(time.Minute)
			if _, err := other.TryLock(t.Context(), name); !errors.Is(err, quorum.ErrHeld) {
				t.Fatalf("another locker: %v", err)
			}
		}
		testkit.Check(t, lock.Valid() && lock.Context().Err() == nil, "lost: %v", lock.Err())
		testkit.Must(t, lock.Unlock(t.Context()))
		testkit.Got(other.TryLock(t.Context(), name))(t)
	})
}

// A holder that stood still for longer than its lease is no longer valid when it goes on, and the next
// has a higher token.
func TestBubblePausedHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, masters *quorumtest.Masters, locker, other *quorum.Locker, lock *quorum.Lock) {
		next := make(chan *quorum.Lock, 1)
		go func() {
			lock, err := other.Lock(t.Context(), name)
			testkit.Check(t, err == nil, "%v", err)
			next <- lock
		}()

		masters.Pause(locker, 2*quorum.DefaultLease)
		testkit.Check(t, !lock.Valid(), "valid after the lease")
		<-lock.Context().Done()
		testkit.Is(t, context.Cause(lock.Context()), quorum.ErrLost, "why the context ended")
		after := <-next
		testkit.Check(t, after.Token() > lock.Token() && after.Valid(),
			"token %d after %d, valid %v", after.Token(), lock.Token(), after.Valid())
		_, err := locker.Lock(t.Context(), "another") // the process goes on
		testkit.Must(t, err)
	})
}

// A short pause costs nothing.
func TestBubbleShortPause(t *testing.T) {
	inBubble(t, func(t *testing.T, masters *quorumtest.Masters, locker, _ *quorum.Locker, lock *quorum.Lock) {
		for range 10 {
			masters.Pause(locker, quorum.DefaultLease/2)
			masters.Work(locker, quorum.DefaultLease/2)
		}
		testkit.Check(t, lock.Valid(), "lost: %v", lock.Err())
	})
}

// A master that forgot the lock grants it to nobody else, and gets it back from its holder.
func TestBubbleForgetfulMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, masters *quorumtest.Masters, _, other *quorum.Locker, lock *quorum.Lock) {
		for master := range 3 { // one after another, all of them
			masters.Forget(master)
			for range 10 {
				if l, err := other.TryLock(t.Context(), name); err == nil {
					t.Fatalf("two holders: tokens %d and %d", lock.Token(), l.Token())
				}
				time.Sleep(quorum.DefaultLease / 5)
			}
		}
		testkit.Check(t, lock.Valid(), "lost: %v", lock.Err())
		// Two at once: the lock is lost, and only the next max lease makes a majority.
		masters.Forget(0)
		masters.Forget(1)
		began := time.Now()
		testkit.Got(other.Lock(t.Context(), name))(t)
		waited := time.Since(began)
		testkit.Check(t, !lock.Valid() && waited >= quorum.DefaultLease,
			"after %v; the first is valid: %v", waited, lock.Valid())
	})
}

// A service that opens its own locker, and the other faults, work in a bubble, too.
func TestBubbleOptionsAndFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := quorumtest.Start(t, 3)
		service := testkit.Opened(redlock.Open(masters.URLs(), masters.Options()...))(t)
		held := masters.HoldElsewhere(name)
		testkit.Is(t, testkit.ErrorOf(service.TryLock(t.Context(), name)), quorum.ErrHeld, "held elsewhere")
		masters.FastForward(quorum.DefaultLease)
		lock := testkit.Got(service.TryLock(t.Context(), name))(t)
		testkit.Check(t, !held.Valid(), "two holders")
		masters.Lose(lock)
		testkit.Is(t, lock.Err(), quorum.ErrLost, "lost")
		masters.Stop(0)
		masters.Stop(1)
		testkit.Is(t, testkit.ErrorOf(service.TryLock(t.Context(), name)), quorum.ErrUnavailable, "two masters are down")
		masters.Start(0)
		lock = testkit.Got(service.Lock(t.Context(), name))(t)
		testkit.Must(t, lock.Unlock(t.Context()))
	})
}

// Masters that were started outside a bubble fail the test that uses them in one, before Go's runtime ends the program.
func TestMastersFromOutsideTheBubble(t *testing.T) {
	f := &testkit.Recorder{TB: t}
	defer f.End()
	masters := quorumtest.Start(f, 3)
	locker := masters.Locker()
	lock := testkit.Got(locker.Lock(t.Context(), name))(t)
	synctest.Test(t, func(t *testing.T) {
		for what, use := range map[string]func(){
			"Locker":        func() { masters.Locker() },
			"Options":       func() { masters.Options() },
			"HoldElsewhere": func() { masters.HoldElsewhere("a") },
			"Lose":          func() { masters.Lose(lock) },
			"Stop":          func() { masters.Stop(0) },
			"Start":         func() { masters.Start(0) },
			"Forget":        func() { masters.Forget(0) },
			"FastForward":   func() { masters.FastForward(time.Hour) },
			"Pause":         func() { masters.Pause(locker, time.Hour) },
			"Work":          func() { masters.Work(locker, time.Hour) },
			"a Lock":        func() { locker.Lock(t.Context(), "a") },
			"a TryLock":     func() { locker.TryLock(t.Context(), "a") },
			"an Extend":     func() { lock.Extend(t.Context(), time.Second) },
			"an Unlock":     func() { lock.Unlock(t.Context()) },
		} {
			f.Died = ""
			f.Run(use)
			testkit.Check(t, f.Died == "quorumtest: the masters were started outside this testing/synctest bubble: call Start in it",
				"%s: it failed with %q", what, f.Died)
		}
	})
}

// Several lockers of a bubble, in goroutines of their own, ask at once whether they could lock.
func TestBubbleReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := quorumtest.Start(t, 3)
		for range 20 {
			locker := masters.Locker()
			go func() { testkit.Is(t, locker.Ready(t.Context()), nil, "Ready") }()
		}
		synctest.Wait()
	})
}

// In FIPS mode Go measures how long instructions take when it first needs randomness, and time stands still in a bubble.
func TestBubblesInFIPSMode(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.cpu=1,4", "-test.run=^TestBubble[LOPR]|^TestExplored$/^seed=[1-5]$")
	child.Env = append(os.Environ(), "GODEBUG=fips140=on")
	output, err := child.CombinedOutput()
	testkit.Check(t, err == nil && bytes.Contains(output, []byte("PASS")), "%v\n%s", err, output)
}

// A locker of somebody else's has no process to pause.
func TestPauseOfAnotherLocker(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	locker := testkit.Opened(redlock.Open(masters.URLs(), masters.Options()...))(t)
	f := &testkit.Recorder{TB: t}
	defer f.End()
	others := quorumtest.Start(f, 1)
	others.Pause(locker, time.Hour)
	others.Work(locker, time.Hour)
	testkit.Check(t, len(f.Said) == 2, "it said %q", f.Said)
}

// The bound of a wait passes with the locker's clock.
func TestBubbleFastForwardEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := quorumtest.Start(t, 3)
		masters.HoldElsewhere("a")
		locker := masters.Locker(quorum.WithWait(5 * time.Second))
		began, ended := time.Now(), make(chan error)
		go func() {
			_, err := locker.Lock(t.Context(), "a")
			ended <- err
		}()
		synctest.Wait()
		masters.FastForward(6 * time.Second)
		err := <-ended
		testkit.Check(t, errors.Is(err, quorum.ErrHeld) && time.Since(began) < time.Second, "after %v: %v", time.Since(began), err)
	})
}
