package quorum

import (
	"context"
	"slices"
	"time"
)

// askProbeFirst asks the probe node, and the others when it grants. When it refuses, the attempt
// ends: it has cost one command. When it fails or is in quarantine, the next node is probed. When
// it does not answer within two steps, the others are asked.
func (a *attempt) askProbeFirst(ctx context.Context) {
	h := a.hold
	a.probed = make(chan struct{}, len(a.answers))
	overdue := time.NewTimer(2 * h.core.rtt.step())
	defer overdue.Stop()
	if !a.start() {
		return
	}
	first := h.probeNode()
	for k := range a.answers {
		switch a.probeOne(ctx, (first+k)%len(a.answers), overdue.C) {
		case refused:
			a.stopAsking()
			return
		case granted, unanswered:
			a.askOthers(ctx)
			return
		}
	}
}

// probeNode returns the node that is asked first: the same for all attempts at the names, in
// whatever order they are given.
func (h *hold) probeNode() int {
	return int(hash(slices.Min(h.first.names)) % uint32(len(h.votes)))
}

func (a *attempt) start() bool {
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	return a.startLocked()
}

// probeOne asks one node, and waits until it answers, is overdue, or the call ends. It returns
// unanswered when the answer has not come.
func (a *attempt) probeOne(ctx context.Context, i int, overdue <-chan time.Time) outcome {
	if a.sendProbe(i) {
		select {
		case <-a.probed:
		case <-overdue:
		case <-ctx.Done():
		case <-a.hold.core.closed:
		}
	}
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	return a.answers[i].outcome
}

// sendProbe returns false when the pipe refused the request.
func (a *attempt) sendProbe(i int) bool {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	a.probe = &a.answers[i]
	a.askLocked(i)
	a.decideLocked()
	return h.votes[i].sent
}

// askOthers asks the nodes that were not probed.
func (a *attempt) askOthers(ctx context.Context) {
	ended := ctx.Err() != nil
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range a.answers {
		if v := &h.votes[i]; !v.sent && !v.relist && a.answers[i].outcome == unanswered && !ended {
			a.askLocked(i)
		}
	}
	a.decideLocked()
}

// stopAsking ends an attempt whose outcome is not certain yet.
func (a *attempt) stopAsking() {
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	if !a.isDecided() {
		close(a.decided)
	}
}
