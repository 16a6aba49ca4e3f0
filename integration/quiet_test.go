package integration_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// While a lock is held for long, its waiters send few commands, even if the holder has a bare
// majority or no waiter can subscribe.
func TestLongWaitsAreQuiet(t *testing.T) {
	const lockers = 8
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, m []*redistest.Master)
		most    int // commands per second on all masters; pings alone are 27
	}{
		{"as usual", func(*testing.T, []*redistest.Master) {}, 300},
		{"the holder has a bare majority", func(t *testing.T, m []*redistest.Master) { do(t, m[2], "DEL", "k") }, 300},
		{"subscribing is forbidden", func(t *testing.T, ms []*redistest.Master) {
			for _, m := range ms {
				do(t, m, "ACL", "SETUSER", "default", "-@pubsub", "+publish")
			}
		}, 900}, // polls every 100 ms or so
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			held := lock(t, open(t, f, redlock.Open), "k")
			grantedByAll(t, f.Masters, "k")
			c.prepare(t, f.Masters)
			results := make(chan *quorum.Lock, lockers)
			for range lockers {
				l := open(t, f, redlock.Open)
				go func() {
					got, err := l.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
					}
					results <- got
				}()
			}
			pass(t, 2*time.Second) // until the waiters have backed off
			before, began := commands(t, f.Masters), time.Now()
			pass(t, time.Second)
			more := int(float64(commands(t, f.Masters)-before) / time.Since(began).Seconds())
			t.Logf("%d commands in a second", more)
			if more > c.most {
				t.Errorf("%d commands in a second, for %d lockers that wait, want %d at most", more, lockers, c.most)
			}
			since := stopwatch(t)
			unlock(t, held)
			for range lockers {
				if got := <-results; got != nil {
					unlock(t, got)
				}
			}
			if took, stalled := since.Read(); took > poll.AtMost(lockers*wakes, stalled) {
				t.Errorf("it took %v until every locker had held it; the machine stood still for %v", took, stalled)
			}
			noLocks(t, f.Masters)
		})
	}
}
