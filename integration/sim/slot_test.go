package sim

import "time"

// slots is how many nanoseconds there are to a turn: in each turn everybody who does something has one for himself.
//
// What happens at one instant of the bubble happens in an order that nobody controls. So nothing that does not follow from the
// same event may happen at one instant: what arrives on a connection, what a flow does, a timer of a lock's clock, all wait for
// the next instant that is theirs alone.
const slots = 1 << 14

// slot is somebody's nanosecond in every turn.
type slot int64

const (
	faultSlot slot = 1
	endSlot   slot = 2
	flowSlots slot = 16      // one for each flow
	startSlot slot = 48      // of who starts a client's process again
	roadSlots slot = 64      // two for each connection
	timeSlots slot = 1 << 13 // timersEach for each flow, and for each process what is left
)

// timersEach is how many of its timers a flow sets before the first slot is used again.
const timersEach = 256

// from returns the slot's first instant that is not before t.
func (s slot) from(t time.Time) time.Time {
	return t.Add(time.Duration((int64(s) - t.UnixNano()) & (slots - 1)))
}

// after returns the slot's first instant after t.
func (s slot) after(t time.Time) time.Time { return s.from(t.Add(1)) }

// wait sleeps until the slot's next instant.
func (s slot) wait() { time.Sleep(time.Until(s.after(time.Now()))) }
