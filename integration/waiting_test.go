package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
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
	before := subscriptions(t, ms, scripts.Channel(name))
	result := make(chan waited, 1)
	go func() {
		lock, err := l.Lock(ctx, name)
		result <- waited{lock, err, time.Now()}
	}()
	eventually(t, patience, func() bool { return subscriptions(t, ms, scripts.Channel(name)) >= before+len(ms) },
		"the waiter has subscribed on each of these masters")
	pass(t, 60*time.Millisecond)
	return result
}

// subscriptions counts the subscriptions to a channel, over the masters.
func subscriptions(t *testing.T, ms []*redistest.Master, channel string) int {
	t.Helper()
	sum := 0
	for _, m := range ms {
		reply, err := redis.Values(m.Do("PUBSUB", "NUMSUB", channel))
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
