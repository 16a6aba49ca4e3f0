package quorumtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

// What the methods of such a lock do is what its documentation says.
func TestContextWithToken(t *testing.T) {
	ctx := quorumtest.ContextWithToken(t.Context(), 7, "a", "b")
	_, ok := quorum.FromContext(ctx, "c")
	testkit.Check(t, !ok, "a name is found that was not given")
	lock, ok := quorum.FromContext(ctx, "a")
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	same, _ := quorum.FromContext(derived, "b")
	testkit.Require(t, ok && lock == same && lock.Context() == ctx, "found %v: %p, and by another name %p", ok, lock, same)
	testkit.Check(t, lock.Token() == 7 && lock.Valid() && lock.Err() == nil && lock.Depth() == 1 && lock.Owner() != "" &&
		fmt.Sprint(lock.Names()) == "[a b]" && time.Until(lock.Deadline()).Round(24*time.Hour) == 365*24*time.Hour,
		"token %d, valid %v, error %v, depth %d, owner %q, names %v, deadline %v",
		lock.Token(), lock.Valid(), lock.Err(), lock.Depth(), lock.Owner(), lock.Names(), lock.Deadline())
	err := lock.Extend(ctx, time.Second)
	testkit.Check(t, err == nil && lock.Valid(), "Extend: %v, valid: %v", err, lock.Valid())
	testkit.Is(t, lock.Extend(ctx, 0), quorum.ErrInvalid, "Extend by no time")

	testkit.Must(t, lock.Unlock(ctx))
	testkit.Check(t, context.Cause(ctx) == quorum.ErrReleased && !lock.Valid() && lock.Err() == quorum.ErrReleased &&
		lock.Depth() == 0,
		"after Unlock: the cause is %v, valid %v, error %v, depth %d",
		context.Cause(ctx), lock.Valid(), lock.Err(), lock.Depth())
	testkit.Is(t, lock.Unlock(ctx), quorum.ErrNotHeld, "the second Unlock")
	_, ok = quorum.FromContext(ctx, "a")
	testkit.Check(t, !ok, "an unlocked lock is found")
}

// The context ends with its parent, and with the parent's cause.
func TestContextWithTokenEndsWithItsParent(t *testing.T) {
	parent, lose := context.WithCancelCause(t.Context())
	ctx := quorumtest.ContextWithToken(parent, 7, "a")
	lock, _ := quorum.FromContext(ctx, "a")
	lose(fmt.Errorf("a test: %w", quorum.ErrLost))
	<-ctx.Done()
	testkit.Check(t, errors.Is(context.Cause(ctx), quorum.ErrLost) && lock.Valid() && lock.Err() == nil,
		"the cause is %v, valid %v, error %v", context.Cause(ctx), lock.Valid(), lock.Err())
}

func TestContextWithTokenThatIsHandedOver(t *testing.T) {
	ctx := quorumtest.ContextWithToken(t.Context(), 7, "a")
	lock, _ := quorum.FromContext(ctx, "a")
	ticket, err := lock.HandOver(ctx)
	testkit.Check(t, ticket != "" && err == nil && context.Cause(ctx) == quorum.ErrHandedOver && !lock.Valid(),
		"%q, %v; the context ended with %v", ticket, err, context.Cause(ctx))
	masters := quorumtest.Start(t, 1)
	_, err = masters.Locker().TakeOver(t.Context(), ticket)
	testkit.Is(t, err, quorum.ErrLost, "TakeOver of a lock of no master")
}

// A Locker does not enter such a lock, and its own locks are found alongside it.
func TestContextWithTokenIsNoLockOfALocker(t *testing.T) {
	locker, err := redlock.Open([]string{"redis://127.0.0.1:1"}, // nobody listens there
		quorum.WithNodeOptions(node.WithTimeout(100*time.Millisecond)), quorum.WithLogger(slog.New(slog.DiscardHandler)))
	testkit.Must(t, err)
	defer locker.Close()
	outer := quorumtest.ContextWithToken(t.Context(), 7, "a")
	ctx := quorumtest.ContextWithToken(outer, 8, "b")
	testkit.Is(t, testkit.ErrorOf(locker.TryLock(ctx, "a")), quorum.ErrUnavailable, "sent to the masters")
	for name, token := range map[string]uint64{"a": 7, "b": 8} {
		lock, ok := quorum.FromContext(ctx, name)
		testkit.Check(t, ok && lock.Token() == token, "%s is found: %v", name, ok)
	}
}

func TestReadersElsewhere(t *testing.T) {
	m := quorumtest.Start(t, 3)
	rw := m.Locker().RWLock("a")
	elsewhere := m.ReadElsewhere("a")
	testkit.Is(t, testkit.ErrorOf(rw.TryLock(t.Context())), quorum.ErrHeld, "a writer next to a reader")
	reader := testkit.Got(rw.TryRLock(t.Context()))(t)
	m.Lose(reader)
	testkit.Check(t, errors.Is(reader.Err(), quorum.ErrLost) && elsewhere.Valid(),
		"the reader: %v; the other: %v", reader.Err(), elsewhere.Err())
	m.Lose(elsewhere)
	writer := testkit.Got(rw.TryLock(t.Context()))(t)
	testkit.Must(t, writer.Downgrade(t.Context()))
	m.Lose(writer)
	testkit.Is(t, writer.Err(), quorum.ErrLost, "the downgraded writer")
}

// A test fails in which two names were taken in two orders, even if no call had to wait.
func TestTwoOrders(t *testing.T) {
	write := (*quorum.RWLock).Lock
	wrong := `quorumtest: a flow that held "y" waited for "x", and one that held "x" waited for "y": each may wait for the ` +
		`other for ever. Lock both names in one call, or always in one order`
	for _, test := range []struct {
		flows [][]string // the names of each, which it locks one within the other
		lock  func(*quorum.RWLock, context.Context) (*quorum.Lock, error)
		opts  []quorum.Option
		loses bool // each lock, before it takes the next
		said  string
	}{
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: write, said: wrong},
		{flows: [][]string{{"x", "y"}, {"x", "y"}, {"y"}, {"x"}}, lock: write},
		{flows: [][]string{{"z", "x", "y"}, {"z", "y", "x"}}, lock: write}, // z lets one of them in
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: (*quorum.RWLock).RLock},
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: write, opts: []quorum.Option{quorum.WithWait(time.Minute)}},
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: write, loses: true},
	} {
		f := &testkit.Recorder{TB: t}
		masters := quorumtest.Start(f, 3)
		for _, names := range test.flows {
			locker, ctx := masters.Locker(test.opts...), t.Context()
			for i, name := range names {
				lock := testkit.Got(test.lock(locker.RWLock(name), ctx))(t)
				ctx = context.WithoutCancel(lock.Context())
				if test.loses || i == len(names)-1 {
					masters.FastForward(quorum.DefaultLease)
				}
			}
		}
		f.End()
		said := fmt.Sprint(f.Said)
		testkit.Check(t, said == "["+test.said+"]", "%q: it said %s, want %s", test.flows, said, test.said)
	}
}
