package quorum

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
)

// waitingRoom is what the waiting calls of Lockers share: their queues, and what is known of holders and of missing nodes.
type waitingRoom struct {
	waitlist *queue.List
	holders  *holders.Holders
	flows    flows

	saidShort  atomic.Bool  // the last attempt of a waiting call failed because nodes were missing, and this was logged
	quietUntil atomic.Int64 // until this clock.Instant, nothing is logged about calls that wait for nodes
}

// quietFor is the least time between two log lines about calls that wait for nodes: attempts may fail and succeed by
// turns.
const quietFor = 10 * time.Second

// noteShort records whether an attempt of a waiting call failed because nodes were missing. It reports whether to log
// that: once while it lasts, for any number of calls.
func (r *waitingRoom) noteShort(short bool) (say bool) {
	if !short {
		if r.saidShort.Load() {
			r.saidShort.Store(false)
		}
		return false
	}
	now, until := r.waitlist.Engine.Clock.Now(), r.quietUntil.Load()
	return now >= clock.Instant(until) && r.saidShort.CompareAndSwap(false, true) &&
		r.quietUntil.CompareAndSwap(until, int64(now.Add(quietFor)))
}
