package integration_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
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

// Messages may be lost in many ways. The waiter gets the lock all the same.
func TestNobodyIsStranded(t *testing.T) {
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
	t.Run("the connections for messages are killed with the release", func(t *testing.T) {
		t.Parallel()
		f := fleet(t, 3)
		held := lock(t, open(t, f, redlock.Open), "k")
		w := wait(t, t.Context(), open(t, f, redlock.Open, patient), f.Masters, "k")
		onAll(t, f, "CLIENT", "KILL", "TYPE", "pubsub")
		since := stopwatch(t)
		unlock(t, held)
		woken(t, w, since, 2*wakes) // the waiter connects again, and then tries again
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
}
