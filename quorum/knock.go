package quorum

import (
	"context"
	"slices"
	"time"
)

// knock asks one node after the other, in an order that is the same for all who want the names, until one can tell: all others
// are asked when it grants, none when it refuses. One that does not answer within a slot or two is not waited for.
func (h *hold) knock(ctx context.Context) {
	call := h.acquire()
	h.answered = make(chan struct{}, len(h.votes))
	patience := time.NewTimer(2 * h.core.rtt.step())
	defer patience.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.startLocked() {
		return
	}
	door := h.door()
	for k := range h.votes {
		i := (door + k) % len(h.votes)
		v := &h.votes[i]
		h.knocked = v
		h.askLocked(i, call)
		if v.asked && v.answer == unanswered {
			h.awaitDoorUnlocked(ctx, patience.C)
		}
		switch v.answer {
		case refused:
			h.giveUpLocked()
			return
		case granted, unanswered:
			for j := range h.votes {
				if other := &h.votes[j]; !other.asked && other.answer == unanswered && ctx.Err() == nil {
					h.askLocked(j, call)
				}
			}
			h.decideLocked()
			return
		}
	}
	h.decideLocked()
}

// awaitDoorUnlocked waits, without the mutex, until the node that was asked last answers, or is not waited for any more.
func (h *hold) awaitDoorUnlocked(ctx context.Context, patience <-chan time.Time) {
	h.mu.Unlock()
	defer h.mu.Lock()
	select {
	case <-h.answered:
	case <-patience:
	case <-ctx.Done():
	case <-h.core.closed:
	}
}

// door is the node that is asked first for the names, in whatever order they are given.
func (h *hold) door() int {
	return int(fnv1a(slices.Min(h.first.names)) % uint32(len(h.votes)))
}

// giveUpLocked ends an attempt that could perhaps be won yet.
func (h *hold) giveUpLocked() {
	select {
	case <-h.decided:
	default:
		close(h.decided)
	}
}
