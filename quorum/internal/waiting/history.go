package waiting

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// contendedFor is how long names count as contended after this process's subscriptions to them have ended.
const contendedFor = 100 * time.Millisecond

// History remembers what has just happened to sets of names, each by a hash of its names:
//
//   - This process has released them while other processes subscribed. A caller that asks again at
//     once would be faster than a waiter, which has to hear of the release first. So for one step
//     its call comes after the processes that heard it.
//   - This process has released a slot, of the semaphore that the names stand for. Its next call
//     attempts that slot first.
//   - The subscriptions of this process have ended. Other processes most likely wait for them, so
//     for 100 ms a first attempt probes.
//
// The zero History is empty. It has room for 256 sets. It is safe for concurrent use.
type History struct {
	mu     sync.Mutex
	recent [256]record // by a part of the hash
}

// record is what is remembered of a set of names.
type record struct {
	known    bool
	names    uint32 // their hash
	released clock.Instant
	heard    int // how many connections heard the release
	slot     int // that was released; −1 for none

	// The process's own subscriptions ended at unsubscribed, when `others` processes subscribed. A node
	// may carry out a release that follows within a step before it ends the subscription.
	unsubscribed clock.Instant
	others       int
}

// Released notes that the names were released, and how many connections heard it.
func (h *History) Released(names uint32, heard int, now clock.Instant) {
	h.change(names, func(r *record) { r.released, r.heard = now, heard })
}

// ReleasedSlot notes that a slot of the semaphore was released.
func (h *History) ReleasedSlot(names uint32, slot int) {
	h.change(names, func(r *record) { r.slot = slot })
}

// TakeSlot returns the slot of the semaphore that was released last, and forgets it, so that no two
// calls attempt it; −1 for none.
func (h *History) TakeSlot(names uint32) (slot int) {
	if h.record(names).slot < 0 {
		return -1
	}
	h.change(names, func(r *record) { slot, r.slot = r.slot, -1 })
	return slot
}

// Unsubscribed notes that the process's own subscriptions for the names end, and how many other
// processes subscribe.
func (h *History) Unsubscribed(names uint32, others int, now clock.Instant) {
	h.change(names, func(r *record) { r.unsubscribed, r.others = now, others })
}

// JustReleased returns how many other processes heard this one release the names within the last
// step, and when that was; 0 for none. After a step their attempts are visible on the nodes.
func (h *History) JustReleased(names uint32, at Moment) (others int, released Moment) {
	r := h.record(names)
	switch others = r.heard; {
	case at.Now.Sub(r.released) > at.Step:
		return 0, at
	case r.released.Sub(r.unsubscribed) <= at.Step:
		others = min(others, r.others) // one of them may be this process's
	}
	return others, Moment{Now: r.released, Step: at.Step}
}

// FirstApproach returns the approach of the first attempt of a new queue: [ProbeFirst] while the
// names are contended, else [Alone].
func (h *History) FirstApproach(names uint32, now clock.Instant) Approach {
	if now.Sub(h.record(names).unsubscribed) < contendedFor {
		return ProbeFirst
	}
	return Alone
}

// record returns what is remembered of a set of names.
func (h *History) record(names uint32) record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.recent[h.place(names)]; r.known && r.names == names {
		return r
	}
	return newRecord(names)
}

// change changes the record of a set of names. Sets that share an entry replace each other.
func (h *History) change(names uint32, by func(r *record)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.recent[h.place(names)]
	if !r.known || r.names != names {
		*r = newRecord(names)
	}
	by(r)
}

func (h *History) place(names uint32) uint32 { return names % uint32(len(h.recent)) }

func newRecord(names uint32) record {
	return record{known: true, names: names, slot: -1, released: clock.Never, unsubscribed: clock.Never}
}
