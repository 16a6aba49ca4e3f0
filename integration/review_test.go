package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// panicsOnce is a source of randomness that panics at its first use.
type panicsOnce struct{ used bool }

func (s *panicsOnce) Uint64() uint64 {
	if !s.used {
		s.used = true
		panic("source")
	}
	return rand.Uint64()
}

// A source of randomness that panics ends the call that used it, and holds up no other, whatever its names.
func TestSourceThatPanicsHoldsUpNobody(t *testing.T) {
	f := fleet(t, 3)
	held := lock(t, open(t, f, redlock.Open), "a")
	defer unlock(t, held)
	l := open(t, f, redlock.Open, quorum.WithRand(&panicsOnce{}))
	// call runs one Lock in a goroutine of its own, which a mutex could hold for ever, and tells whether it ended.
	call := func(name string) (ended bool, panicked any) {
		over := make(chan any, 1)
		go func() {
			defer func() { over <- recover() }()
			ctx, cancel := context.WithTimeout(context.Background(), soon/4)
			defer cancel()
			if lock, err := l.Lock(ctx, name); err == nil {
				lock.Unlock(ctx)
			}
		}()
		select {
		case panicked = <-over:
			return true, panicked
		case <-time.After(soon):
			return false, nil
		}
	}
	if ended, panicked := call("a"); !ended || panicked == nil {
		t.Errorf("the call that waits has ended: %v, with the panic %v: want it to panic", ended, panicked)
	}
	if ended, _ := call("b"); !ended {
		t.Error("Lock of another name does not return, not even when its context ends")
	}
}

// Options that only a new Locker takes, nil ones, and a max hold that no attempt could meet are refused.
func TestOptionsThatWithRefuses(t *testing.T) {
	f := fleet(t, 3)
	l := open(t, f, redlock.Open)
	for what, opt := range map[string]quorum.Option{
		"max hold": quorum.WithMaxHold(30), // seconds were meant
		"clock":    quorum.WithClock(nil), "source": quorum.WithRand(nil), "nodes'": quorum.WithNodeOptions(), "nil": nil,
	} {
		_, err := l.With(opt).TryLock(t.Context(), "a")
		want(t, err, quorum.ErrInvalid, what)
		if what != "nodes'" {
			_, err := redlock.Open(f.URLs(), opt)
			want(t, err, quorum.ErrInvalid, what)
		}
	}
	_, err := redlock.Open(f.URLs(), quorum.WithNodeOptions(node.Option(nil)))
	want(t, err, quorum.ErrInvalid, "nil")
}

// A renewal that the server forbids within the script is a failure, which may pass, and no word of another holder.
func TestARenewalThatIsForbiddenWithinTheScript(t *testing.T) {
	for _, command := range []string{"pexpire", "hexists"} {
		t.Run(command, func(t *testing.T) {
			f := fleet(t, 3)
			may(t, f, "app:*")
			l := open(t, asApp(f), redlock.Open, quorum.WithLease(3*time.Second))
			held := lock(t, l, "app:1")
			grantedByAll(t, f.Masters, "app:1")
			onAll(t, f, "ACL", "SETUSER", "app", "-"+command)
			time.Sleep(1200 * time.Millisecond) // a renewal, of three, is forbidden
			onAll(t, f, "ACL", "SETUSER", "app", "+"+command)
			time.Sleep(2 * time.Second)
			if !held.Valid() {
				t.Errorf("the lock is lost: %v", held.Err())
			}
		})
	}
}

// What Inspect calls no lock, for its length, ForceUnlock leaves alone.
func TestForceUnlockLeavesWhatIsTooLongForALock(t *testing.T) {
	f := fleet(t, 3)
	l := open(t, f, redlock.Open)
	onAll(t, f, "HSET", "session", strings.Repeat("u", 5000), "1")
	onAll(t, f, "EXPIRE", "session", 1000)
	if _, err := l.Inspect(t.Context(), "session"); err == nil || !strings.Contains(err.Error(), "no lock") {
		t.Fatalf("Inspect: %v", err)
	}
	if err := l.ForceUnlock(t.Context(), "session"); !errors.Is(err, quorum.ErrUnavailable) {
		t.Errorf("ForceUnlock: %v, want an error of every node's", err)
	}
	for _, m := range f.Masters {
		if there, err := redis.Bool(m.Do("EXISTS", "session")); err != nil || !there {
			t.Errorf("%s: it is deleted (%v)", m.Addr(), err)
		}
	}
}
