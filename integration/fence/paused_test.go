//go:build unix

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	shortLease = 500 * time.Millisecond // of a holder that is paused
	longLease  = 30 * time.Second       // of the next holder, which must keep its lock
	account    = 42
)

// lock locks the test's name by a locker of its own.
func lock(t *testing.T, masters *redistest.Fleet, lease time.Duration) *quorum.Lock {
	t.Helper()
	locker := testkit.Opened(redlock.Open(masters.URLs(), quorum.WithFixedLease(lease),
		quorum.WithNodeOptions(node.WithTimeout(soon), node.WithoutQuarantine())))(t)
	ctx := testkit.Within(t, soon)
	return testkit.Got(locker.Lock(ctx, t.Name()))(t)
}

// outcome is what a holder has done.
type outcome struct {
	fenced       bool
	acknowledged []write
}

// before calls do before the step with that number, from 1, among the steps of a name.
func before(name string, nth int, do func()) (step func(next string)) {
	return func(next string) {
		if next != name {
			return
		}
		if nth--; nth == 0 {
			do()
		}
	}
}

// startHolder starts a holder that is paused before the step of that number, from 1, with its work half done. resume,
// to be called when another has the lock, lets it go on to its end.
func startHolder(t *testing.T, masters *redistest.Fleet, r resource, by order, step string, nth int) (resume func() outcome) {
	t.Helper()
	held := lock(t, masters, shortLease)
	paused, goOn, told := make(chan bool), make(chan bool), make(chan outcome, 1)
	s := r.session(t, before(step, nth, func() {
		close(paused)
		<-goOn
	}))
	t.Cleanup(s.close)
	go func() {
		acknowledged, err := s.work(context.Background(), account, held.Token(), by, 1)
		testkit.Check(t, err == nil || errors.Is(err, fence.ErrFenced), "%v", err)
		told <- outcome{err != nil, acknowledged}
	}()
	select {
	case <-paused:
	case o := <-told:
		t.Fatalf("the holder was not paused: %+v", o)
	}
	return func() outcome {
		testkit.Is(t, held.Err(), quorum.ErrLost, "paused for longer than its lease")
		close(goOn)
		return <-told
	}
}

// A holder is paused for longer than its lease, with a write in hand that it has checked its lock for. Another one gets
// the lock, and the first one goes on.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	schedules := []struct {
		name  string
		after string // the next holder is before this step when the paused one goes on; "" for its end
		nth   int
		by    order
		bad   bool // a control: it must lose an update
	}{
		{"after the next holder's write", "", 0, stampFirst, false},
		{"between the next holder's read and its write", "begin", 2, stampFirst, false},
		{"after the next holder's write", "", 0, stampOnlyRead, true},
	}
	masters := testkit.Real(t, 3)
	// TestInterleavings and TestWrongOrdersLoseUpdates have the other guards and orders.
	for _, name := range []string{
		"Redis", "PostgreSQL, lib/pq", "SQLite, write-ahead log", "MariaDB, repeatable read",
	} {
		fresh := resources()[name]
		for _, c := range schedules {
			t.Run(fmt.Sprintf("%s/%s/%s", name, c.name, c.by), func(t *testing.T) {
				t.Parallel()
				r := fresh(t)
				r.account(t, account)
				resume := startHolder(t, masters, r, c.by, "begin", 2) // at its write
				next := lock(t, masters, longLease)
				ctx := testkit.Within(t, soon)
				var told *outcome
				s := r.session(t, before(c.after, c.nth, func() { told = new(resume()) }))
				defer s.close()
				acknowledged := testkit.Got(s.work(ctx, account, next.Token(), c.by, 2))(t)
				if told == nil {
					told = new(resume())
				}
				must(t, next.Unlock(ctx))

				balance, log := r.state(t, account)
				err := judge(append(told.acknowledged, acknowledged...), balance, log)
				switch {
				case !c.bad && err != nil:
					t.Error(err)
				case !c.bad && !told.fenced:
					t.Errorf("the late write was accepted: %v", log)
				case c.bad && err == nil:
					t.Errorf("no harm done: %v, and the holder was told %+v", log, *told)
				}
			})
		}
	}
}

// A holder that is paused with its transaction open holds up the next holder, and then both writes count. A step of Redis
// is never open: TestStampKeyInterrupted of package fence.
func TestPausedInATransaction(t *testing.T) {
	t.Parallel()
	masters := testkit.Real(t, 3)
	for _, name := range []string{"PostgreSQL, lib/pq", "MariaDB, repeatable read", "SQLite, write-ahead log"} {
		t.Run(name, func(t *testing.T) {
			r := resources()[name](t)
			r.account(t, account)
			resume := startHolder(t, masters, r, stampFirst, "write", 1)
			next := lock(t, masters, longLease)
			brief, cancel := context.WithTimeout(t.Context(), shortLease/2)
			defer cancel()
			waits := r.session(t, func(string) {})
			defer waits.close()
			_, err := waits.work(brief, account, next.Token(), stampFirst, 2)
			testkit.Check(t, err != nil, "the next holder does not wait")
			told := resume()
			testkit.Check(t, !told.fenced, "the paused holder: %+v", told)
			ctx, cancel := context.WithTimeout(t.Context(), soon) // from now: the try may have lasted PostgreSQL's lock_timeout
			defer cancel()
			again := r.session(t, func(string) {})
			defer again.close()
			acknowledged := testkit.Got(again.work(ctx, account, next.Token(), stampFirst, 2))(t)
			must(t, next.Unlock(ctx))
			balance, log := r.state(t, account)
			testkit.Is(t, judge(append(told.acknowledged, acknowledged...), balance, log), nil, "the account")
			testkit.Equal(t, balance, opening+3, "the balance")
		})
	}
}
