package quorum

import (
	"sync"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// turns remembers which names this process has just released while others subscribed to them. A
// call of Lock that asks again at once would be faster than a waiter that first has to hear of the
// release, so it lets the others go first.
type turns struct {
	mu     sync.Mutex
	recent [256]releasedNames // by a hash of the names
}

// releasedNames is the last release of a set of names.
type releasedNames struct {
	hash     uint32
	released clock.Instant
	heard    int // how many connections heard it
	// The process's own subscriptions ended at that time, while so many others subscribed. A
	// release within a step may still count them.
	unsubscribed clock.Instant
	others       int
}

// moment returns the present, for package waiting.
func (c *core) moment() waiting.Moment {
	return waiting.Moment{Now: c.clock.Now(), Step: c.rtt.step()}
}

// noteReleased notes that the names were released, and how many connections heard it.
func (c *core) noteReleased(names []string, heard int) {
	if heard == 0 {
		return
	}
	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()
	last := c.turns.entryLocked(newNameSet(names))
	at := c.moment()
	if at.Now.Sub(last.unsubscribed) <= at.Step {
		heard = min(heard, last.others)
	}
	last.released, last.heard = at.Now, heard
}

// noteUnsubscribed notes that the process's own subscriptions for the names have ended, while so
// many others subscribed.
func (c *core) noteUnsubscribed(key nameSet, others int) {
	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()
	last := c.turns.entryLocked(key)
	last.unsubscribed, last.others = c.clock.Now(), others
}

// entryLocked returns the entry of a set of names, which is empty for names that are not the last
// ones with that entry.
func (t *turns) entryLocked(key nameSet) *releasedNames {
	sum := hash(key.text)
	last := &t.recent[sum%uint32(len(t.recent))]
	if last.hash != sum {
		*last = releasedNames{hash: sum, released: clock.Never, unsubscribed: clock.Never}
	}
	return last
}

// justReleased returns how many connections heard this process release the names within the last
// step, and when that was; 0 for none. After a step their attempts are visible on the nodes.
func (c *core) justReleased(key nameSet) (heard int, released waiting.Moment) {
	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()
	last := c.turns.entryLocked(key)
	at := c.moment()
	if last.heard == 0 || at.Now.Sub(last.released) > at.Step {
		return 0, at
	}
	return last.heard, waiting.Moment{Now: last.released, Step: at.Step}
}
