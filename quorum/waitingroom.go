package quorum

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// waitingRoom is what the waiting calls of Lockers share: their queues, and what these know of waiters elsewhere, of
// holders and of missing nodes.
type waitingRoom struct {
	waitlist *queue.List
	holders  *holders.Holders
	history  waiting.History
	flows    flows
	clock    clock.Clock

	saidShort  atomic.Bool  // the last attempt of a waiting call failed because nodes were missing, and this was logged
	quietUntil atomic.Int64 // until this clock.Instant, nothing is logged about calls that wait for nodes

	rngMu sync.Mutex
	rng   *rand.Rand // seeds others; its source is the settings'
}

// newRand returns the source of jitter for one queue.
func (r *waitingRoom) newRand() *rand.Rand {
	r.rngMu.Lock()
	defer r.rngMu.Unlock()
	seed := r.rng.Uint64N(1 << 62)
	return rand.New(rand.NewPCG(seed, seed))
}

// random returns a number from 0 to below−1.
func (r *waitingRoom) random(below int) int {
	r.rngMu.Lock()
	defer r.rngMu.Unlock()
	return r.rng.IntN(below)
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
	now, until := r.clock.Now(), r.quietUntil.Load()
	return now >= clock.Instant(until) && r.saidShort.CompareAndSwap(false, true) &&
		r.quietUntil.CompareAndSwap(until, int64(now.Add(quietFor)))
}
