package integration_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

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
	w := wait(t, t.Context(), waiter, f.Masters, "app:1")
	select {
	case <-held.Requested(): // the waiter's first request arrives: it makes no poll
	case <-time.After(patience):
		t.Fatal("the holder was not asked to let go")
	}
	must(t, held.Err())
	since := stopwatch(t)
	unlock(t, held)
	woken(t, w, since, soon)
	eventually(t, patience, func() bool { return subscriptions(t, f.Masters, scripts.AskChannel("app:1")) == 0 }, "nobody listens any more")
	noLocks(t, f.Masters)
}
