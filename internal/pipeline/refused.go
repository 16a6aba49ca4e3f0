package pipeline

import (
	"slices"
	"time"
)

const (
	minRefusalPause = 250 * time.Millisecond
	maxRefusalPause = 5 * time.Second
	maxRefusals     = 1024
)

// refusals are the releases that the server itself refused: it answers, but forbids this user that key, or writes nothing for want
// of replicas. It may for ever, so they hold up nobody. Each goes out again after a pause that grows, until it is carried out, until a
// later one of the same owner replaces it, or until the key must have expired by itself. The pipe's mutex guards them.
type refusals struct {
	waiting []*request  // in the order in which they were refused
	timer   *time.Timer // for the first that is due
}

// refusal is the past of one release that was refused.
type refusal struct {
	pause time.Duration
	due   time.Time // when it goes out again
	end   time.Time // the key has expired by then: nothing of the owner's was asked for after the first refusal
}

// setAside keeps a release that the server refused. The run goroutine calls it.
func (p *Pipe) setAside(r request, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setAsideLocked(r, why)
}

func (p *Pipe) setAsideLocked(r request, why error) {
	now := time.Now()
	next := refusal{pause: minRefusalPause, end: now.Add(p.cfg.MaxLease)}
	if r.refusal == nil {
		p.cfg.Log.ReleaseRefused(r.call, why)
	} else {
		next.pause, next.end = min(2*r.refusal.pause, maxRefusalPause), r.refusal.end
	}
	if p.closing || !now.Before(next.end) {
		return
	}
	next.due = now.Add(next.pause/2 + time.Duration(p.rng.Int64N(int64(next.pause))))
	p.refused.replace(r.claim)
	if len(p.refused.waiting) == maxRefusals {
		p.refused.waiting = slices.Delete(p.refused.waiting, 0, 1) // its key is left to its lease
	}
	p.refused.waiting = append(p.refused.waiting, &request{call: r.call, claim: r.claim, refusal: &next})
	p.armRefusedLocked()
}

// replace forgets the release of an owner of which another one goes out.
func (a *refusals) replace(claim *Claim) {
	if claim != nil {
		a.waiting = slices.DeleteFunc(a.waiting, func(r *request) bool { return r.claim == claim })
	}
}

func (a *refusals) end() {
	a.waiting = nil
	if a.timer != nil {
		a.timer.Stop()
	}
}

// armRefusedLocked sets the timer, if the pipe is up: when it is not, goUp does.
func (p *Pipe) armRefusedLocked() {
	a := &p.refused
	if p.state != up || len(a.waiting) == 0 {
		return
	}
	first := a.waiting[0].refusal.due
	for _, r := range a.waiting {
		if r.refusal.due.Before(first) {
			first = r.refusal.due
		}
	}
	if left := time.Until(first); a.timer == nil {
		a.timer = time.AfterFunc(left, p.retryRefused)
	} else {
		a.timer.Reset(left)
	}
}

// retryRefused queues what is due once more.
func (p *Pipe) retryRefused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != up || p.closing {
		return
	}
	now := time.Now()
	p.refused.waiting = slices.DeleteFunc(p.refused.waiting, func(r *request) bool {
		if now.Before(r.refusal.due) {
			return false
		}
		if now.Before(r.refusal.end) {
			p.queue = append(p.queue, *r)
		}
		return true
	})
	p.canWrite.Signal()
	p.armRefusedLocked()
}
