package waiting

import "time"

const (
	// maxPosition bounds the steps that a waiter leaves to others.
	maxPosition = 32
	// maxBackoff bounds the backoff. Alongside a holder of a bare quorum the disagreements go on:
	// waiters get the votes that it lacks, give them back, and so wake each other.
	maxBackoff = time.Second
	// pollGap is what each of many queues adds to the longest time between two polls of one of them.
	pollGap = 500 * time.Microsecond
)

// Retry has the bounds of the random time between attempts while no release can be heard.
type Retry struct{ Min, Max time.Duration }

// steps is the time of `more` steps plus one per position.
func (q *Queue) steps(more int, step time.Duration) time.Duration {
	position := min(q.position, maxPosition)
	if q.shared {
		position = max(position-1, 0)
	}
	return time.Duration(more+position) * step
}

// poll returns the random time until an attempt that no message has caused. With few queues it ends with
// the lease of the holder, if that is known (not −1), and one step for each position.
func (q *Queue) poll(lease time.Duration, at Moment) time.Duration {
	if !q.subscriptionsStand() {
		return q.retryAfter(lease, at)
	}
	if wait := q.sharedPoll(at); wait > 0 {
		return wait
	}
	most := q.usualPoll()
	wait := most/2 + q.jitter(most/2)
	if lease >= 0 {
		wait = min(wait, lease+time.Millisecond+q.steps(0, at.Step))
	}
	return wait
}

// usualPoll is the longest time between two polls of one of few queues.
func (q *Queue) usualPoll() time.Duration { return 5 * q.retryBounds().Max }

// sharedPoll returns the random time between two polls of one of many queues; 0 if the process has
// few. It grows with their number, so that the process's polls take no more than a fixed share of it
// and of the masters, however many names it waits for. It also bounds, from below, whatever else comes
// again and again without a message.
func (q *Queue) sharedPoll(at Moment) time.Duration {
	most := time.Duration(at.Queues) * pollGap
	if most <= q.usualPoll() {
		return 0
	}
	return most/2 + q.jitter(most/2)
}

// retryAfter returns the retry time: random, growing with the failures in a row, and ending with
// the lease of the holder if that is known (not −1). Many queues share it as they share polls.
func (q *Queue) retryAfter(lease time.Duration, at Moment) time.Duration {
	bounds := q.retryBounds()
	most := min(bounds.Min<<min(q.failures, 10), bounds.Max)
	wait := bounds.Min/2 + q.jitter(most)
	if lease >= 0 {
		wait = min(wait, lease+time.Millisecond)
	}
	return max(wait, q.sharedPoll(at))
}

// backoff returns a random time that doubles with each disagreement, up to a second, or up to the
// time that many queues leave between polls.
func (q *Queue) backoff(at Moment) time.Duration {
	longest := max(maxBackoff, time.Duration(at.Queues)*pollGap)
	most := min(at.Step<<min(q.disagreements, 20), longest)
	return most/2 + q.jitter(most/2)
}

func (q *Queue) jitter(below time.Duration) time.Duration {
	if q.rng == nil {
		q.rng = q.random()
	}
	return time.Duration(q.rng.Int64N(int64(max(below, 1))))
}
