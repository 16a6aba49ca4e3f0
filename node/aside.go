package node

import (
	"slices"
	"time"
)

const (
	minAsidePause = 250 * time.Millisecond
	maxAsidePause = 5 * time.Second
	maxAside      = 1024
)

// aside is the releases of a pipe that the server itself refused: it answers, but forbids this user that key, or writes nothing for
// want of replicas. It may for ever, so they hold up nobody: each goes out again after a pause that grows, until it is carried out,
// until a later one of the same owner replaces it, or until the key must have expired by itself. The pipe's mutex guards it.
type aside struct {
	waiting []request   // in the order in which they were refused
	timer   *time.Timer // for the first that is due
}

// refused is what one release that was refused has behind it.
type refused struct {
	pause time.Duration
	due   time.Time // when it goes out again
	end   time.Time // the key has expired by itself by then: nothing of the owner's was asked for after the first refusal
}

// setAside is called by the run goroutine.
func (p *pipe) setAside(r request, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setAsideLocked(r, why)
}

func (p *pipe) setAsideLocked(r request, why error) {
	now := time.Now()
	next := refused{pause: minAsidePause, end: now.Add(p.node.opts.maxLease)}
	if r.refused == nil {
		p.node.log.setAside(r.call, why)
	} else {
		next.pause, next.end = min(2*r.refused.pause, maxAsidePause), r.refused.end
	}
	if p.closing || !now.Before(next.end) {
		return
	}
	next.due = now.Add(next.pause/2 + time.Duration(p.dice.Int64N(int64(next.pause))))
	p.aside.replaceBy(r.claim)
	if len(p.aside.waiting) == maxAside {
		p.aside.waiting = slices.Delete(p.aside.waiting, 0, 1) // its key is left to its lease
	}
	p.aside.waiting = append(p.aside.waiting, request{call: r.call, claim: r.claim, refused: &next})
	p.armAsideLocked()
}

// replaceBy forgets the release of an owner of which another one goes out.
func (a *aside) replaceBy(claim *Claim) {
	if claim != nil {
		a.waiting = slices.DeleteFunc(a.waiting, func(r request) bool { return r.claim == claim })
	}
}

func (a *aside) end() {
	a.waiting = nil
	if a.timer != nil {
		a.timer.Stop()
	}
}

// armAsideLocked sets the timer, if the pipe is up: when it is not, goUp does.
func (p *pipe) armAsideLocked() {
	a := &p.aside
	if p.state != up || len(a.waiting) == 0 {
		return
	}
	first := a.waiting[0].refused.due
	for _, r := range a.waiting {
		if r.refused.due.Before(first) {
			first = r.refused.due
		}
	}
	if left := time.Until(first); a.timer == nil {
		a.timer = time.AfterFunc(left, p.retryAside)
	} else {
		a.timer.Reset(left)
	}
}

// retryAside puts what is due into the pipeline once more.
func (p *pipe) retryAside() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != up || p.closing {
		return
	}
	now := time.Now()
	p.aside.waiting = slices.DeleteFunc(p.aside.waiting, func(r request) bool {
		if now.Before(r.refused.due) {
			return false
		}
		if now.Before(r.refused.end) {
			p.queue = append(p.queue, r)
		}
		return true
	})
	p.canWrite.Signal()
	p.armAsideLocked()
}
