package integration_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// letsGoWhenAsked starts a waiter, which asks, and unlocks when the request comes. The waiter then has
// the lock, long before a lease is over.
func letsGoWhenAsked(t *testing.T, held *quorum.Lock, waiter *quorum.Locker, name string) {
	t.Helper()
	result := make(chan waited, 1)
	go func() {
		lock, err := waiter.Lock(t.Context(), name)
		result <- waited{lock, err, time.Now()}
	}()
	select {
	case <-held.Requested():
	case <-time.After(patience):
		t.Fatal("the holder was not asked to let go")
	}
	must(t, held.Err())
	unlock(t, held)
	select {
	case got := <-result:
		must(t, got.err)
		unlock(t, got.lock)
	case <-time.After(patience):
		t.Fatal("the waiter did not get the lock")
	}
}

// The rights of a user that locks are enough to ask and to listen.
func TestAUserOfTheRecipeMayAsk(t *testing.T) {
	redistest.Need(t, redistest.ACLChannels)
	t.Parallel()
	f := fleet(t, 3)
	may(t, f, "app:*")
	holder := open(t, asApp(f), redlock.Open, quorum.WithLease(30*time.Second))
	waiter := open(t, asApp(f), redlock.Open, quorum.WithRequest(), patient)
	held := lock(t, holder, "app:1")
	held.Requested()
	eventually(t, patience, func() bool { return subscriptions(t, f.Masters, scripts.AskChannel("app:1")) == 3 }, "the holder listens")
	letsGoWhenAsked(t, held, waiter, "app:1") // the waiter's first request arrives: it makes no poll
	eventually(t, patience, func() bool { return subscriptions(t, f.Masters, scripts.AskChannel("app:1")) == 0 }, "nobody listens any more")
	noLocks(t, f.Masters)
}
