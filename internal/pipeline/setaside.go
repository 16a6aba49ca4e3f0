package pipeline

import "time"

// setAside keeps a release that the server itself refused: the server answers, but forbids this
// user the key, or writes nothing because too few replicas are attached. That may last for ever, so
// the release delays no other call. It is resent after a pause that grows, until it is carried out, until
// a later release of its owner replaces it, or until the key must have expired. A release that has
// nothing to release is not kept. The run goroutine calls it.
func (p *Pipe) setAside(r request, refusal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setAsideLocked(r, refusal)
}

func (p *Pipe) setAsideLocked(r request, refusal error) {
	if r.footprint != nil && r.footprint.NothingThere() {
		return
	}
	now := time.Now()
	next := retry{pause: minRetryPause, end: now.Add(p.cfg.MaxLease)}
	if r.retry == nil {
		p.cfg.Log.ReleaseRefused(r.call, refusal)
	} else {
		next.pause, next.end = min(2*r.retry.pause, maxRetryPause), r.retry.end
	}
	if p.closing || !now.Before(next.end) {
		return
	}
	next.due = now.Add(next.pause/2 + time.Duration(p.rng.Int64N(int64(next.pause))))
	p.aside.add(request{call: r.call, footprint: r.footprint, alone: true, retry: &next})
	p.armRetriesLocked()
}

// armRetriesLocked sets the timer for the next retry while the pipe is up. [Pipe.goUp] sets it
// after an outage.
func (p *Pipe) armRetriesLocked() {
	due, ok := p.aside.nextDue()
	if p.state != up || !ok {
		return
	}
	if left := time.Until(due); p.retryTimer == nil {
		p.retryTimer = time.AfterFunc(left, p.retryReleases)
	} else {
		p.retryTimer.Reset(left)
	}
}

// retryReleases queues the releases that are due.
func (p *Pipe) retryReleases() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != up || p.closing {
		return
	}
	p.queue = append(p.queue, p.aside.takeDue(time.Now())...)
	p.canWrite.Signal()
	p.armRetriesLocked()
}

// endRetriesLocked drops the releases that are set aside: their keys are left to their leases.
func (p *Pipe) endRetriesLocked() {
	p.aside = releaseList{}
	if p.retryTimer != nil {
		p.retryTimer.Stop()
	}
}
