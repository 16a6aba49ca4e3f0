package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// One node's permanent error may be that of all nodes: a wrong list of masters, or a wrong password.
// Then a retry cannot succeed, and the caller must be told so ([ErrPermanent]). But an attempt is
// lost as soon as too few nodes are left, before all have answered, or before all were asked. So an
// attempt that is lost with a permanent error asks the others, too, and waits for their answers, if
// these can make the error permanent. It waits for grace at most, and [attempt.undo] does not wait
// for these nodes again: the call takes no longer than without. A re-entry asks all nodes, and waits
// for their answers likewise.

// askWhetherPermanent asks the nodes whose errors can make the attempt's permanent.
func (a *attempt) askWhetherPermanent(ctx context.Context) {
	told := a.askTheRest()
	if told == nil {
		return
	}
	moment := time.NewTimer(grace)
	defer moment.Stop()
	select {
	case <-told:
	case <-moment.C:
		a.waited = true
	case <-ctx.Done():
	case <-a.hold.core.closed:
	}
}

// askTheRest asks the nodes that were not asked, and returns a channel that is closed once no answer
// can make a difference any more. It returns nil if none can now.
func (a *attempt) askTheRest() (told <-chan struct{}) {
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	if a.verdict != lost || !a.isUnclearLocked() {
		return nil
	}
	a.askSecondWaveLocked()
	if !a.isUnclearLocked() { // the nodes were down
		return nil
	}
	a.clear = make(chan struct{})
	return a.clear
}

// isUnclearLocked reports whether the error is not permanent, but can become so by answers to come.
func (a *attempt) isUnclearLocked() bool {
	permanent, open := 0, 0
	for i := range a.answers {
		switch a.answers[i].outcome {
		case unasked, unanswered:
			open++
		case unknown:
			if isPermanent(a.answers[i].vote.err) {
				permanent++
			}
		}
	}
	return isUnclear(len(a.answers), a.hold.core.need, permanent, open)
}

// isPermanent reports whether an error is a node's permanent one.
func isPermanent(err error) bool {
	var failed *node.Error
	return errors.As(err, &failed) && failed.Permanent()
}

// isUnclear reports whether so many permanent errors leave enough nodes, but no longer do if those
// that are open answer with one, too.
func isUnclear(nodes, need, permanent, open int) bool {
	usable := nodes - permanent
	return permanent > 0 && usable >= need && usable-open < need
}

// noteClearLocked ends the wait of askWhetherPermanent once no answer can make a difference.
func (a *attempt) noteClearLocked() {
	if a.clear != nil && !a.isUnclearLocked() {
		close(a.clear)
		a.clear = nil
	}
}

// awaitWhetherPermanent waits, after a call that failed, for the nodes whose errors can make the
// call's permanent.
func (t *tally) awaitWhetherPermanent(ctx context.Context, closed <-chan struct{}) {
	if awaitDecided(ctx, t) != nil {
		return
	}
	told := t.unclear()
	if told == nil {
		return
	}
	moment := time.NewTimer(grace)
	defer moment.Stop()
	select {
	case <-told:
	case <-moment.C:
	case <-ctx.Done():
	case <-closed:
	}
}

// unclear returns a channel that is closed once no reply can make the error permanent any more, or
// nil if none can now.
func (t *tally) unclear() (told <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= t.need || !t.isUnclearLocked() {
		return nil
	}
	t.clear = make(chan struct{})
	return t.clear
}

func (t *tally) isUnclearLocked() bool {
	permanent := 0
	if t.failed != nil {
		for _, err := range t.failed.Errors {
			if isPermanent(err) {
				permanent++
			}
		}
	}
	return isUnclear(t.nodes, t.need, permanent, t.left)
}
