package waiting

import (
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
)

const (
	// patience times the duration of the call's own attempts is how long somebody must refuse
	// before he counts as a holder. An owner that doesn't hold lives no longer than its attempt. So
	// of two calls that refuse each other again and again, only the one with the shorter attempts
	// can give up.
	patience = 4
	// maxDoublings bounds the backoff of tries.
	maxDoublings = 4
)

// Tries decides whether a call that waits for no release tries again after a failed attempt: it
// does until somebody is known to hold what it wants. When several processes try at once, each may
// get some of the votes, and none a quorum. It must be made by [NewTries]. It is not safe for
// concurrent use.
type Tries struct {
	quorum    quorate.Rule
	approach  Approach                 // of the last attempt, or turn at slots
	took      time.Duration            // by the last attempt: with a node that has died since the first it is short again
	longest   time.Duration            // that an attempt of the call took
	splits    int                      // attempts that got votes
	failed    bool                     // the last one got none
	seen      map[string]clock.Instant // who refused: since when
	attempted bool                     // since the last Next
	again     bool                     // and refused by somebody who had refused before
	probed    bool                     // the last two probed
}

// Refusals says who refused a failed attempt.
type Refusals struct {
	By     []string    // by node: the owner that is there, or a text for others; empty if the node did not refuse
	Votes  int         // that the attempt got
	Unable quorate.Set // nodes that could not have granted, whoever holds
}

// NewTries returns the tries of a call for a lock. The first attempt is [Alone].
func NewTries(quorum quorate.Rule) *Tries {
	return &Tries{quorum: quorum, approach: Alone, seen: map[string]clock.Instant{}}
}

// Next returns the approach of the next attempt, or turn at slots, and the pause before it.
func (t *Tries) Next(at Moment, random func(below int) int) (Approach, time.Duration) {
	switch {
	case !t.attempted: // the hints told of no free slot
	case t.approach == ProbeFirst && (t.again || t.probed) && !t.quorum.NeedsAll(): // the probe node may be alone in refusing
		t.approach, t.probed = AskAll, false
	default:
		t.approach, t.probed = ProbeFirst, t.approach == ProbeFirst
	}
	t.attempted, t.again = false, false
	unit := max(at.Step, t.took)
	if !t.failed { // others who got votes, too, shouldn't come at the same time
		unit <<= min(t.splits, maxDoublings)
	}
	return t.approach, unit/2 + time.Duration(random(int(min(unit, math.MaxInt))))
}

// Refused records an attempt that others refused, and how long it took. It returns a node that names a holder, or −1
// if none is known. Somebody is a holder if enough nodes name him, or if those who refused have been there too long
// to be making an attempt.
func (t *Tries) Refused(r Refusals, took time.Duration, at Moment) (namedBy int) {
	t.took, t.longest = took, max(t.longest, took)
	t.attempted = true
	if t.failed = r.Votes == 0; !t.failed {
		t.splits++
	}
	var lasting quorate.Set
	has, oldest := map[string]quorate.Set{}, -1
	namedBy = -1
	for node, owner := range r.By {
		if owner == "" {
			continue
		}
		since, known := t.seen[owner]
		if !known {
			t.seen[owner], since = at.Now, at.Now
		}
		t.again = t.again || since != at.Now
		if has[owner] |= quorate.Of(node); t.quorum.Enough(has[owner]) {
			namedBy = node
		}
		if t.IsLong(since, at) {
			lasting |= quorate.Of(node)
		}
		if oldest < 0 || since.Before(t.seen[r.By[oldest]]) {
			oldest = node
		}
	}
	if namedBy < 0 && t.quorum.Blocks(lasting|r.Unable) {
		namedBy = oldest
	}
	return namedBy
}

// IsLong reports whether what refuses since then has lasted too long to be an attempt.
func (t *Tries) IsLong(since clock.Instant, at Moment) bool {
	return at.Now.Sub(since) >= patience*max(t.longest, at.Step)
}
