package world

import "time"

// Slot is one actor's nanosecond in every turn. Nothing fixes the order of events within one instant of a bubble, so with a
// [Weather] events without a common cause must not share an instant: what arrives on a connection, a flow's actions, and the
// timers of a process' clock each wait for the next instant of their own. The zero Slot is in no turn, and never waits.
type Slot int64

// turn is the number of nanoseconds in a turn.
const turn = 1 << 14

const (
	// FaultSlot is when faults begin and end.
	FaultSlot Slot = 1
	// TestSlots is the first slot of those that are the test's own, below waySlots.
	TestSlots Slot = 2

	waySlots   Slot = 64      // two for each connection, for a round of 63 connections of each process to each master
	timerSlots Slot = 1 << 13 // eight flows for each of eight processes
	timersEach      = 128     // how many timers a flow sets before its first slot is used again
)

// From returns the slot's first instant at or after t.
func (s Slot) From(t time.Time) time.Time {
	if s == 0 {
		return t
	}
	return t.Add(time.Duration((int64(s) - t.UnixNano()) & (turn - 1)))
}

// After returns the slot's first instant after t.
func (s Slot) After(t time.Time) time.Time {
	if s == 0 {
		return t
	}
	return s.From(t.Add(1))
}

// Wait sleeps until the slot's next instant.
func (s Slot) Wait() {
	if s != 0 {
		time.Sleep(time.Until(s.After(time.Now())))
	}
}

// waySlot is when data arrives, in one direction of a connection.
func waySlot(process, master, number int, up bool) Slot {
	own := (number*8+process%8)*16 + master%8*2
	if up {
		own++
	}
	return waySlots + Slot(own)%(timerSlots-waySlots)
}

// timerSlot is when a flow's timer fires.
func timerSlot(process, flow, number int) Slot {
	return timerSlots + Slot((process%8*8+flow%8)*timersEach+number%timersEach)
}
