package sim

import "time"

// slots is the number of nanoseconds in a turn. In each turn every actor has one nanosecond of its
// own.
//
// Nothing fixes the order of events within one instant of the bubble. So events without a common
// cause must not share an instant: the arrivals on a connection, a flow's actions, and the timers
// of a lock's clock each wait for the next instant of their own.
const slots = 1 << 14

// slot is one actor's nanosecond in every turn.
type slot int64

const (
	faultSlot      slot = 1
	endSlot        slot = 2
	flowSlots      slot = 16      // one for each flow
	startSlot      slot = 48      // of the restart of a client's process
	directionSlots slot = 64      // two for each connection
	timeSlots      slot = 1 << 13 // timersEach for each flow, and the rest for each process
)

// timersEach is how many timers a flow sets before the first slot is used again.
const timersEach = 256

// from returns the slot's first instant at or after t.
func (s slot) from(t time.Time) time.Time {
	return t.Add(time.Duration((int64(s) - t.UnixNano()) & (slots - 1)))
}

// after returns the slot's first instant after t.
func (s slot) after(t time.Time) time.Time { return s.from(t.Add(1)) }

// wait sleeps until the slot's next instant.
func (s slot) wait() { time.Sleep(time.Until(s.after(time.Now()))) }
