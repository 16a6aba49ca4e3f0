package pipeline

import (
	"cmp"
	"slices"
	"time"
)

const (
	minRetryPause = 250 * time.Millisecond // also between two looks at which debts are due
	maxRetryPause = 5 * time.Second
	maxDebts      = 1024 // beyond this number, a release that the server refuses, or for another owner, is left to its key's lease
)

// debts holds each owner's last release that the server has not carried out: because it did not answer,
// which makes the debt due before the next connection is used, or because it refused, which makes it due
// later, while the pipe is up. One that was refused stays due later if its retry gets no answer.
type debts struct {
	of       map[*Footprint]*request
	incurred uint64
}

// add replaces the owner's former debt.
func (d *debts) add(r request, retry *retry) {
	if r.footprint == nil {
		r.footprint = new(Footprint)
	}
	d.incurred++
	d.of[r.footprint] = &request{call: r.call, footprint: r.footprint, order: d.incurred, alone: true, retry: retry}
}

// due returns the debts that are due, in their order. It drops those whose keys must have expired. Those that the
// server has refused are due while the pipe is up: the server may refuse them again, and with a thousand of them one
// is due at any time.
func (d *debts) due(up bool) (found []*request) {
	now := time.Now()
	for owner, r := range d.of {
		switch {
		case r.retry == nil:
			found = append(found, r)
		case !now.Before(r.retry.end):
			delete(d.of, owner)
		case up && !now.Before(r.retry.due):
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *request) int { return cmp.Compare(a.order, b.order) })
	return found
}

// settle removes a debt. It returns false if a later release has replaced it.
func (d *debts) settle(paid *request) bool {
	if d.of[paid.footprint] != paid {
		return false
	}
	delete(d.of, paid.footprint)
	return true
}

// oweLocked keeps a release that got no answer. Other requests it ignores, and with many debts a release for another owner
// than the caller's: an outage bounds the number of callers' own.
func (p *Pipe) oweLocked(r request) {
	if r.call.IsRelease() && !(r.call.Bars() && len(p.debts.of) >= maxDebts) {
		p.debts.add(r, r.retry)
	}
}

// refused keeps a release that the server itself refused: the server answers, but forbids this
// user the key, or writes nothing because too few replicas are attached. That may last for ever, so
// the release delays no other call. It is resent after a pause that grows, until it is carried out, until
// a later release of its owner replaces it, or until the key must have expired. A release that has
// nothing to release is not kept.
func (p *Pipe) refused(r request, refusal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusedLocked(r, refusal)
}

func (p *Pipe) refusedLocked(r request, refusal error) {
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
	isFull := r.retry == nil && len(p.debts.of) >= maxDebts // what was kept stays
	if p.closing || !now.Before(next.end) || isFull {
		return
	}
	next.due = now.Add(next.pause/2 + time.Duration(p.rng.Int64N(int64(next.pause))))
	p.debts.add(r, &next)
	p.armRetriesLocked()
}

// armRetriesLocked has the next look at which debts are due, if there are any and the pipe is up. [Pipe.goUp] calls it after
// an outage.
func (p *Pipe) armRetriesLocked() {
	if p.state == up && len(p.debts.of) > 0 && !p.retriesArmed {
		p.retriesArmed = true
		time.AfterFunc(minRetryPause, p.retryReleases)
	}
}

// retryReleases queues the releases that are due.
func (p *Pipe) retryReleases() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retriesArmed = false
	if p.state != up {
		return
	}
	for _, r := range p.debts.due(true) {
		p.debts.settle(r)
		p.queue = append(p.queue, *r)
	}
	p.canWrite.Signal()
	p.armRetriesLocked()
}
