package quorum

import (
	"slices"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// An attempt asks the nodes in two waves. The first wave is
//
//   - one node, the probe node, for an attempt that may not be alone ([waiting.ProbeFirst]). A
//     refusal there ends the attempt, which has cost one command;
//   - as many nodes as the quorum size, for one that most likely is alone ([waiting.QuorumFirst]),
//     while the locker is busy;
//   - else all nodes.
//
// A node of the first wave that fails, or is in quarantine, is replaced by the next one.
//
// The second wave is all other nodes. It is asked as soon as the first wave has answered and the
// outcome is open: the probe node has granted, or some of several nodes have refused. Otherwise it
// is asked two steps after the first wave, whether the attempt is still open or has become a lock.

// busyFrom is how many attempts of a locker must be open for it to be busy. With fewer of them, to
// ask a quorum first saves nothing that matters, and a lock stands on all nodes from the start.
const busyFrom = 4

// ask asks the first wave, and schedules the second one.
func (a *attempt) ask(approach waiting.Approach) {
	if a.askFirstWave(approach) {
		a.hold.core.secondWaves.Add(&a.entry, func() bool { return true })
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
	a.firstNode = h.firstNode()
	rtt := h.core.rtt
	compares := approach != waiting.ProbeFirst && rtt.MustCompare(h.requestedAt)
	switch {
	case approach == waiting.ProbeFirst:
		a.waveSize, a.probing, a.timed = 1, true, true
	case approach == waiting.QuorumFirst && h.core.isQuorumFirst(compares):
		a.waveSize = h.core.need
	default:
		a.waveSize, a.timed = len(a.answers), compares
	}
	step := rtt.Step(h.core.need)
	a.entry = schedule.Entry[*attempt]{Owner: a, At: h.requestedAt.Add(2 * step), Early: step / 2}
	for range a.waveSize {
		a.askNextLocked()
	}
	a.decideLocked()
	if left = a.count()[unasked] > 0; left {
		h.secondWave = a
	}
	return left
}

// isQuorumFirst reports whether an attempt that most likely is alone asks a quorum first.
func (c *core) isQuorumFirst(compares bool) bool {
	if c.quorumFirst != nil {
		return c.quorumFirst(c.lastOwner.Load())
	}
	return c.openAttempts.Load() >= busyFrom && !compares
}

// firstNode returns the node with which attempts at the names begin, the probe node of a probe: the
// same for all processes, in whatever order the names are given.
func (h *hold) firstNode() int {
	return int(hash(slices.Min(h.first.names)) % uint32(len(h.votes)))
}

// askNextLocked asks the next node, and reports whether one was left. The order begins with
// firstNode, so that each node gets its share. Slow nodes come last, but not in a probe: its order
// is the same for all processes.
func (a *attempt) askNextLocked() bool {
	for _, alsoSlow := range [...]bool{a.probing, true} {
		for k := range a.answers {
			i := (a.firstNode + k) % len(a.answers)
			if a.answers[i].outcome == unasked && (alsoSlow || !a.hold.core.rtt.IsSlow(i)) {
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
	case of[unanswered]+of[granted]+of[refused] < a.waveSize: // one has failed, or is in quarantine
		a.timed = false
		return a.askNextLocked()
	case of[unanswered] == 0:
		a.askSecondWaveLocked()
		return true
	default:
		return false
	}
}

// askSecondWaveLocked asks all nodes that are left.
func (a *attempt) askSecondWaveLocked() {
	a.hold.secondWave, a.timed = nil, false
	for a.askNextLocked() {
	}
}

// askSecondWaveNowLocked asks the second wave, unless it has been asked. It comes before a request
// to all nodes that must find the lock there.
func (h *hold) askSecondWaveNowLocked() {
	if h.secondWave != nil {
		h.secondWave.askSecondWaveLocked()
	}
}

// askSecondWaves asks the second waves that are due (schedule.Due): of attempts that are open, and
// of locks that are still valid. An attempt that has failed may be due before its call undoes it.
func (c *core) askSecondWaves(now clock.Instant, due []*schedule.Entry[*attempt]) (after func()) {
	for _, e := range due {
		e.Over = true
		a := e.Owner
		a.hold.mu.Lock()
		switch h := a.hold; {
		case h.phase == attempting && !a.isDecided():
			a.noteLateLocked(now)
			a.askSecondWaveLocked()
			a.decideLocked()
		case h.phase == attempting && a.verdict == won, h.isKeptLocked() && now.Before(h.deadline):
			a.askSecondWaveLocked()
		}
		a.hold.mu.Unlock()
	}
	return func() {}
}

// noteLateLocked tells the rtt of the nodes that have not answered, so that further attempts ask
// them last.
func (a *attempt) noteLateLocked(now clock.Instant) {
	for i := range a.answers {
		if a.answers[i].outcome == unanswered {
			a.hold.core.rtt.Observe(i, now.Sub(a.hold.requestedAt))
		}
	}
}
