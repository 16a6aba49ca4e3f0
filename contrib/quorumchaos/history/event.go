// Package history judges the events that the clients of a lock recorded: whether two clients ever
// held a name at once, whether every holder's fencing token was higher than the one before, and
// whether a resource behind the lock lost a write. A simulation and tests with processes on real
// servers record the same events. The package knows nothing of how the lock works.
package history

import (
	"fmt"
	"math"
)

// Unknown is the Return of a call whose return was not recorded: its process was killed. The call
// may have had its effect.
const Unknown int64 = math.MaxInt64

// Kind is the kind of an event.
type Kind int

const (
	// Acquired: Lock was called and returned a lock, or its return is [Unknown].
	Acquired Kind = iota + 1
	// Released: Unlock was called, with any result. Once for each handle: a second Unlock is no
	// event.
	Released
	// Lost: the lock's context ended, or its deadline passed, without an Unlock.
	Lost
	// Downgraded: the holder called Downgrade, with any result. It counts as a reader from Call on.
	Downgraded
)

var kindWords = map[Kind]string{Acquired: "acquired", Released: "released", Lost: "lost", Downgraded: "downgraded"}

func (k Kind) String() string {
	if word, ok := kindWords[k]; ok {
		return word
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Event is one event of a client about one name. A lock over several names makes an event for each
// of them.
type Event struct {
	Client int
	Name   string
	Owner  string // unique for each lock: all depths of one lock have the same
	Depth  int    // of the handle: 1 (or 0) for the one that releases the lock, more for re-entries
	Kind   Kind
	Shared bool   // of an acquire: by a reader
	Token  uint64 // of an acquire; 0 if Return is Unknown and the token is unknown too

	// Call and Return are when Lock or Unlock was called, and when it returned, in nanoseconds on
	// one clock that all clients share: a bubble's or the machine's, but not a clock.Instant, which
	// has no meaning in another process. For a loss, Call is the end of the lock as far as it is
	// known, and Return is when the client saw it; they may be equal.
	Call, Return int64

	// Deadline is the last instant until which the holder believed that it held, on the same clock;
	// 0 if unknown. Renewal moves it: an event may be added after the end of the
	// lock, or Released and Lost may carry the deadline instead. The largest deadline of a lock's
	// events counts.
	Deadline int64
}
