package pipeline

import "github.com/quorumlock/quorumlock/scripts"

// arranger puts the requests of one write in the order in which they are sent, so that acquires,
// and releases, of different owners share runs of a script.
//
// It divides the requests into segments. In each one the releases go first and the acquires follow.
// A segment ends before a second request of an owner, and before a call of another kind. So
//
//   - the requests of one owner keep their order;
//   - an acquire may fall behind requests of other owners, as it may when the network delays it;
//   - no acquire overtakes a release: a name that this process has released is free.
type arranger struct {
	segment  uint32
	releases lane
	acquires lane
	out      []request
}

// lane collects the requests of one kind in a segment.
type lane struct {
	shared []request // may share runs
	lone   []request
}

// arrange returns the requests in the order in which they are sent. The first of those that share a
// run carries their number. The result is valid until the next call. The pipe's mutex guards the
// arranger and the footprints' segments.
func (a *arranger) arrange(queue []request) []request {
	clear(a.out)
	a.out = a.out[:0]
	a.endSegment()
	for i := range queue {
		r := &queue[i]
		r.run, r.sealed = 0, false // of a write before
		isRelease := r.call.Frees()
		if r.footprint == nil || !isRelease && !r.call.IsAcquire() {
			a.endSegment()
			a.out = append(a.out, *r)
			continue
		}
		if r.footprint.segment == a.segment {
			a.endSegment()
		}
		r.footprint.segment = a.segment
		if isRelease {
			a.releases.add(r)
		} else {
			a.acquires.add(r)
		}
	}
	a.endSegment()
	return a.out
}

func (a *arranger) endSegment() {
	a.segment++
	a.out = a.releases.moveTo(a.out)
	a.out = a.acquires.moveTo(a.out)
}

func (l *lane) add(r *request) {
	if r.canShare() {
		l.shared = append(l.shared, *r)
	} else {
		l.lone = append(l.lone, *r)
	}
}

// moveTo appends the lane's requests to out, with those that share a run next to each other.
func (l *lane) moveTo(out []request) []request {
	for left := l.shared; len(left) > 0; {
		n := 1
		for n < len(left) && n < scripts.MaxRun && left[n].call.CanShareWith(left[0].call) {
			n++
		}
		left[0].run = n
		out = append(out, left[:n]...)
		left = left[n:]
	}
	out = append(out, l.lone...)
	clear(l.shared)
	clear(l.lone)
	l.shared, l.lone = l.shared[:0], l.lone[:0]
	return out
}

// canShare reports whether the request may share a run. A release that wants a tombstone may not.
func (r *request) canShare() bool {
	return !r.alone && r.call.CanShare() && !(r.call.Frees() && r.footprint.MayArriveLate())
}

// runOf returns how many of the requests, the first ones, share a run.
func runOf(requests []request) int { return max(requests[0].run, 1) }
