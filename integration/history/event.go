// Package history judges what the clients of a lock saw: whether two ever held a name at once, whether every holder's fencing
// token was higher than the one before, and whether a resource behind the lock lost a write. A simulation and tests with
// processes on real servers record the same events. The package knows nothing of how the lock works.
package history

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// Unknown is the Return of a call that was not seen to return: its process was killed. It may have had its effect.
const Unknown int64 = math.MaxInt64

// Kind is what happened.
type Kind int

const (
	// Acquired: Lock was called and returned a lock, or was not seen to return.
	Acquired Kind = iota + 1
	// Released: Unlock was called, whatever it returned. Once for each handle: a second Unlock is no event.
	Released
	// Lost: the lock's context ended, or its deadline passed, without an Unlock.
	Lost
)

var kindWords = map[Kind]string{Acquired: "acquired", Released: "released", Lost: "lost"}

func (k Kind) String() string {
	if word, ok := kindWords[k]; ok {
		return word
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Event is something that a client saw happen to one name. A lock over several names makes an event for each of them.
type Event struct {
	Client int
	Name   string
	Owner  string // fresh for every lock: the first level and those entered again within it have the same
	Level  int    // of the handle, as it was when Lock returned it: 1 (or 0) for the one that releases the lock, more for re-entries
	Kind   Kind
	Token  uint64 // of an acquire; 0 where Return is Unknown and no token was learned

	// Call and Return are when Lock or Unlock was called, and when it returned. Both are nanoseconds on one clock that all
	// clients share: a bubble's, or the machine's, but not a clock.Instant, which means nothing to another process. Of a loss,
	// Call is when the lock ended as far as is known, Return when that was seen; they may be the same.
	Call, Return int64

	// Deadline is the last instant until which the holder believed that it held, on the same clock; 0 where the event does not
	// say. Renewal moves it: an event may be added once the lock is over, or carry the deadline in Released and Lost instead.
	// The largest that the events of a lock tell counts.
	Deadline int64
}

// Log gathers events. It is safe for concurrent use; the zero value is ready.
type Log struct {
	mu     sync.Mutex
	events []Event
}

// Add appends an event. The order of events does not matter to Check: their times do.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// Events returns a copy of what was added, in that order.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}
