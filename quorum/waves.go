package quorum

import (
	"slices"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// An attempt asks the nodes in two waves. The first one is one node ([waiting.ProbeFirst]), as many
// as the quorum size ([waiting.QuorumFirst]) or all ([waiting.AskAll]). A node of the first wave
// that fails, or is in quarantine, is replaced by the next one. The second wave is all other nodes:
//
//   - as soon as the probe node has granted; a refusal there ends the attempt, which has cost one
//     command;
//   - when all of the first wave have answered, and some have refused;
//   - two steps after the first, whether the attempt is still open or has become a lock by then.

// busyFrom is how many attempts of a Locker must be under way for a quorum to be asked first. With
// fewer of them that saves nothing that matters, and a lock stands on all nodes from the start.
const busyFrom = 4

// ask asks the first wave.
func (a *attempt) ask(approach waiting.Approach) {
	if a.askFirstWave(approach) {
		a.hold.core.secondWaves.add(&a.entry, func() bool { return true })
	}
}

// askFirstWave reports whether nodes are left for a second wave.
func (a *attempt) askFirstWave(approach waiting.Approach) (left bool) {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if !a.startLocked() {
		return false
	}
	c := h.core
	a.first = h.probeNode()
	a.wave = len(a.answers)
	a.compares = approach == waiting.ProbeFirst || c.pace.mustCompare(h.requestedAt)
	switch {
	case approach == waiting.ProbeFirst:
		a.wave, a.probing = 1, true
	case approach == waiting.QuorumFirst && c.isQuorumFirst(a.compares):
		a.wave, a.compares = c.need, false
	}
	step := c.pace.step(c.need)
	a.entry = entry{owner: a, at: h.requestedAt.Add(2 * step), early: step / 2, index: -1}
	h.asking = a
	for range a.wave {
		a.askNextLocked()
	}
	a.decideLocked()
	if a.count()[unasked] == 0 {
		h.asking = nil
	}
	return h.asking != nil
}

// isQuorumFirst reports whether an attempt without contention that is known asks a quorum first.
func (c *core) isQuorumFirst(mustCompare bool) bool {
	if c.quorumFirst != nil {
		return c.quorumFirst(c.lastOwner.Load())
	}
	return c.attempting.Load() >= busyFrom && !mustCompare
}

// probeNode returns the node that is asked first: the same for all attempts at the names, in
// whatever order they are given.
func (h *hold) probeNode() int {
	return int(hash(slices.Min(h.first.names)) % uint32(len(h.votes)))
}

// askNextLocked asks the next node, and reports whether one was left. The names give the order, so
// that each node gets its share. Slow nodes come last, but not for a probe: its order is the same
// for all processes.
func (a *attempt) askNextLocked() bool {
	for _, alsoSlow := range [...]bool{a.probing, true} {
		for k := range a.answers {
			i := (a.first + k) % len(a.answers)
			if a.answers[i].outcome == unasked && (alsoSlow || !a.hold.core.pace.isSlow(i)) {
				a.askLocked(i)
				return true
			}
		}
	}
	return false
}

// askMoreLocked asks further nodes where the answers so far call for it, and reports whether it
// has. It ends an attempt whose probe was refused.
func (a *attempt) askMoreLocked(of outcomeCounts) bool {
	switch {
	case of[unasked] == 0:
		return false
	case a.probing && of[refused] > 0:
		close(a.decided)
		return false
	case of[unanswered]+of[granted]+of[refused] < a.wave:
		a.compares = false
		return a.askNextLocked()
	case of[unanswered] == 0:
		a.askRestLocked()
		return true
	default:
		return false
	}
}

// askRestLocked asks the second wave.
func (a *attempt) askRestLocked() {
	a.hold.asking, a.compares = nil, false
	for a.askNextLocked() {
	}
}

// askSecondWaves asks the second waves that are due (schedule.due): of attempts that are open, and
// of locks that are still valid. An attempt that has failed may be due before its call undoes it.
func (c *core) askSecondWaves(now clock.Instant, due []*entry) (after func()) {
	for _, e := range due {
		e.over = true
		a := e.owner.(*attempt)
		a.hold.mu.Lock()
		switch h := a.hold; {
		case h.phase == attempting && !a.isDecided():
			a.noteLateLocked(now)
			a.askRestLocked()
			a.decideLocked()
		case h.phase == attempting && a.verdict == won, h.isKeptLocked() && now.Before(h.deadline):
			a.askRestLocked()
		}
		a.hold.mu.Unlock()
	}
	return func() {}
}

// noteLateLocked counts the nodes that have not answered as slow, for further attempts.
func (a *attempt) noteLateLocked(now clock.Instant) {
	for i := range a.answers {
		if a.answers[i].outcome == unanswered {
			a.hold.core.pace.observe(i, now.Sub(a.hold.requestedAt))
		}
	}
}
