package pipeline

import (
	"slices"
	"time"
)

const (
	minRetryPause = 250 * time.Millisecond
	maxRetryPause = 5 * time.Second
	maxSetAside   = 1024
)

// releaseList holds the releases that are set aside, in the order in which the server refused them,
// one for each owner.
type releaseList struct{ requests []*request }

// add appends a release in place of its owner's former one. A full list makes room: it drops the
// oldest release of an owner that was never granted anything, as far as is known, or else the
// oldest. If a key is there, it is left to its lease.
func (l *releaseList) add(r request) {
	l.remove(r.footprint)
	l.requests = append(l.requests, &r)
	if len(l.requests) > maxSetAside {
		needless := slices.IndexFunc(l.requests, func(r *request) bool {
			return r.footprint != nil && !r.footprint.has(hasGranted)
		})
		l.requests = slices.Delete(l.requests, max(needless, 0), max(needless, 0)+1)
	}
}

// remove drops the release of an owner. Releases without a footprint stay.
func (l *releaseList) remove(footprint *Footprint) {
	if footprint != nil {
		l.requests = slices.DeleteFunc(l.requests, func(r *request) bool { return r.footprint == footprint })
	}
}

// nextDue returns when the first release is due; ok is false for an empty list.
func (l *releaseList) nextDue() (first time.Time, ok bool) {
	for i, r := range l.requests {
		if i == 0 || r.retry.due.Before(first) {
			first = r.retry.due
		}
	}
	return first, len(l.requests) > 0
}

// takeDue removes the releases that are due, and returns those whose keys may still be there.
func (l *releaseList) takeDue(now time.Time) (due []request) {
	l.requests = slices.DeleteFunc(l.requests, func(r *request) bool {
		if now.Before(r.retry.due) {
			return false
		}
		if now.Before(r.retry.end) {
			due = append(due, *r)
		}
		return true
	})
	return due
}
