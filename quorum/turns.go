package quorum

import (
	"sync"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// turns remembers which names this process has just released while other processes subscribed to
// them. A caller that asks again at once would be faster than a waiter, which has to hear of the
// release first. So for one step its call of Lock goes behind those that heard it.
type turns struct {
	mu     sync.Mutex
	recent [256]turn // by a hash of the names
}

// turn is what is remembered of a set of names.
type turn struct {
	hash     uint32
	released clock.Instant
	heard    int // how many other processes heard the release

	// The process's own subscriptions ended at unsubscribed, when so many others subscribed. A node
	// may carry out a release that follows within a step before it ends the subscription.
	unsubscribed clock.Instant
	others       int
}

// noteReleased notes that the names were released, and that so many connections heard it.
func (t *turns) noteReleased(key nameSet, heard int, at waiting.Moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.ofLocked(key)
	if at.Now.Sub(last.unsubscribed) <= at.Step {
		heard = min(heard, last.others) // one of the connections may be this process's
	}
	last.released, last.heard = at.Now, heard
}

// noteUnsubscribed notes that the process's own subscriptions for the names end, while so many
// other processes subscribe.
func (t *turns) noteUnsubscribed(key nameSet, others int, at waiting.Moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.ofLocked(key)
	last.unsubscribed, last.others = at.Now, others
	last.heard = min(last.heard, others) // the subscriptions may have heard the last release, too
}

// justReleased returns how many other processes heard this one release the names within the last
// step, and when that was; 0 for none. After a step their attempts are visible on the nodes.
func (t *turns) justReleased(key nameSet, at waiting.Moment) (others int, released waiting.Moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.ofLocked(key)
	if at.Now.Sub(last.released) > at.Step {
		return 0, at
	}
	return last.heard, waiting.Moment{Now: last.released, Step: at.Step}
}

// ofLocked returns the turn of a set of names. Sets that share an entry drive each other out.
func (t *turns) ofLocked(key nameSet) *turn {
	sum := hash(key.text)
	entry := &t.recent[sum%uint32(len(t.recent))]
	if entry.hash != sum {
		*entry = turn{hash: sum, released: clock.Never, unsubscribed: clock.Never}
	}
	return entry
}
