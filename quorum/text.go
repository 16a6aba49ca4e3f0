package quorum

// The parts of texts for people, of errors, locks and states.

import (
	"fmt"
	"time"
)

// leftText says for how long a lock is held, −1 for ever.
func leftText(left time.Duration) string {
	switch {
	case left < 0:
		return "without an end"
	case left >= time.Second:
		left = left.Round(100 * time.Millisecond)
	}
	return fmt.Sprintf("%v left", left)
}

// slotsText names slots after the name of their semaphore; empty for none.
func slotsText(slots []int) string {
	if slots == nil {
		return ""
	}
	word := " slot"
	if len(slots) > 1 {
		word += "s"
	}
	for i, slot := range slots {
		if i > 0 {
			word += ","
		}
		word += fmt.Sprintf(" %d", slot)
	}
	return word
}

// readingText tells a reader's lock from others, after the name.
func readingText(reads bool) string {
	if reads {
		return " for reading"
	}
	return ""
}

// readersText counts readers.
func readersText(n int) string {
	if n == 1 {
		return "1 reader"
	}
	return fmt.Sprintf("%d readers", n)
}

// ownerText names an owner, with its process if that is known.
func ownerText(owner string, is Identity) string {
	if is == (Identity{}) {
		return fmt.Sprintf("%.64q", owner)
	}
	return fmt.Sprintf("%v as %.64q", is, owner)
}
