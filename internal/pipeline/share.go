package pipeline

import "github.com/quorumlock/quorumlock/scripts"

// arranger puts the requests of one write in the order in which they are sent, so that acquires, and
// releases, of different owners share runs of a script.
//
// It divides the requests into segments. In each one the releases go first and the acquires follow.
// So a release may overtake an acquire of another owner, as it may when the network delays that
// acquire, and nothing else is reordered: an acquire overtakes no release, and a segment ends before
//
//   - a release of an owner that has an acquire in it,
//   - a call of another kind.
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
// run tells how many they are. The result is valid until the next call. The pipe's mutex guards the
// claims' segments.
func (a *arranger) arrange(queue []request) []request {
	clear(a.out)
	a.out = a.out[:0]
	a.endSegment()
	for i := range queue {
		r := &queue[i]
		switch {
		case r.claim != nil && r.call.Frees():
			if r.claim.segment == a.segment {
				a.endSegment()
			}
			a.releases.add(r)
		case r.claim != nil && r.call.IsAcquire():
			r.claim.segment = a.segment
			a.acquires.add(r)
		default:
			a.endSegment()
			a.out = append(a.out, *r)
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
	return !r.alone && r.call.CanShare() && !(r.call.Frees() && r.claim.mayArriveLate.Load())
}

// runOf returns how many of the requests, the first ones, share a run.
func runOf(requests []request) int { return max(requests[0].run, 1) }
