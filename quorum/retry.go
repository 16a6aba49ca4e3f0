package quorum

import (
	"math/rand/v2"
	"time"
)

// bounds are those of WithRetry.
type bounds struct{ min, max time.Duration }

// after is a random time that grows with the number of tries, and no longer than a holder's remaining lease.
func (b bounds) after(dice *rand.Rand, tries int, hint time.Duration) time.Duration {
	most := min(b.min<<min(tries, 10), b.max)
	wait := b.min/2 + time.Duration(dice.Int64N(int64(most)))
	if hint >= 0 {
		wait = min(wait, hint+time.Millisecond)
	}
	return wait
}

// eagerness is the least bounds of those who wait in a queue: nobody waits by another's that are longer.
type eagerness struct {
	least    bounds
	min, max int  // how many have them
	stale    bool // one of the two has left with the last who had it: those who wait are to be looked at again
}

// joined tells whether somebody who comes waits by shorter bounds than the others.
func (e *eagerness) joined(b bounds) (sooner bool) {
	if e.min == 0 || b.min < e.least.min {
		e.least.min, e.min, sooner = b.min, 0, true
	}
	if e.max == 0 || b.max < e.least.max {
		e.least.max, e.max, sooner = b.max, 0, true
	}
	if b.min == e.least.min {
		e.min++
	}
	if b.max == e.least.max {
		e.max++
	}
	return sooner
}

func (e *eagerness) left(b bounds) {
	if b.min == e.least.min {
		e.min--
	}
	if b.max == e.least.max {
		e.max--
	}
	e.stale = e.stale || e.min == 0 || e.max == 0
}

// boundsLocked are those by which the queue waits. They are looked for only when they are needed and the most eager have left.
func (q *queue) boundsLocked() bounds {
	if q.eager.stale {
		q.eager = eagerness{}
		for w := q.first; w != nil; w = w.behind {
			q.eager.joined(w.set.retry)
		}
	}
	return q.eager.least
}
