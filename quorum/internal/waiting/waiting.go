// Package waiting decides who asks the nodes for a lock next, when, and whom. It is a pure state machine: events go in, and
// [Queue.Next] says what follows. It sends nothing, reads no clock and starts no timer.
//
// A [Queue] holds the waiters of one process for one set of names, in FIFO order. Only the head contacts the nodes. Between
// processes there is no queue. There the order is estimated: a refusal tells how many processes listen for a release, and a
// waiter lets as many releases pass (its position). Nobody relies on the others: each position costs one step of time at most,
// and a poll bounds every wait.
//
// A release counts when as many nodes as the quorum size have published it: fewer may be votes that a failed attempt gave
// back.
//
//	event               what it changes                              the head's next attempt
//	Join                the waiter goes to the end                   at once in a new queue; else no later than by its own poll
//	Begin               an attempt is under way                      none until it has ended
//	Refused, held       the position is counted anew                 by the first of these that holds:
//	  release meanwhile                                              as after a release
//	  split vote        disagreements are counted                    after the backoff, probe first
//	  subscriptions came to stand meanwhile                          at once, probe first: a release may have been missed
//	  by the probe node disagreements are counted                    after ten steps and one per position, ask all
//	  by all            a disagreement is taken off                    by the poll or at the end of the lease, ask all
//	Refused, otherwise  failures are counted                         after the retry time, ask all
//	Acquired            the waiter goes; the position is counted     by the poll or at the end of the lease, ask all
//	Leave, the head     the waiter goes                              at once if its attempt was under way
//	Leave, another      the waiter goes                              unchanged
//	Message, a release  the position falls by one                    in one step per position; ask all at position 0
//	Message, otherwise                                               in two steps and one per position, probe first
//	Subscribed          enough subscriptions stand                   at once, probe first: a release may have been missed
//	Unsubscribed        too few subscriptions stand                  by the retry time
package waiting

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Approach is whom an attempt asks first.
type Approach int

const (
	// AskAll asks all nodes at once. It takes one round trip. When several processes ask all at once, each may get a part of
	// the votes and none a quorum.
	AskAll Approach = iota
	// ProbeFirst asks one node, the same for all processes, and the others once that one has granted. An attempt that is
	// refused there has cost one command, holds nothing and releases nothing, so that attempts do not split the vote.
	ProbeFirst
)

// Moment is when an event happens.
type Moment struct {
	Now clock.Instant
	// Step is long enough for one waiter's attempt to become visible to the next.
	Step time.Duration
}

// Retry bounds the random time between attempts while no release can be heard.
type Retry struct{ Min, Max time.Duration }

// Result is what the nodes said to an attempt that failed.
type Result struct {
	Held      bool          // somebody else's lock is the reason; else nodes are in quarantine or unavailable
	Wait      time.Duration // until enough nodes can grant the lock, going by what they said; −1 when unknown
	Votes     int           // that the attempt had, and gave back
	Listeners int           // processes that listen for a release, this one included; 0 when no node told
}

// Queue is the waiters of one process for one set of names. It must not be used before Init, nor be copied after. It is not safe for
// concurrent use.
type Queue struct {
	quorum int
	nodes  int
	random func() *rand.Rand
	rng    *rand.Rand // made by random when it is needed first

	head, tail *Waiter
	retries    []retryCount  // of the waiters, one entry for each bounds
	oneRetry   [1]retryCount // room for the usual case

	attempting bool          // the head's attempt is under way
	next       clock.Instant // when the head is to ask
	approach   Approach

	subscribed  uint64   // bit by node: its subscription stands
	messages    []uint64 // by node; nil before any is heard
	wake        wakeSequence
	wakeAtBegin wakeSequence // as it stood when the attempt under way began

	position      int  // processes whose turn comes first at the next release
	ranked        bool // position was counted while releases could be heard
	listeners     int  // processes that listen, as the nodes said last
	disagreements int  // attempts since the last release that not all nodes refused; one that all refuse takes one off
	failures      int  // attempts in a row that could not have heard of a release, or failed for no holder's sake
}

// wakeSequence counts what calls for an attempt. An attempt that began before the last of them may have come too early.
type wakeSequence struct {
	releases    uint64 // by as many nodes as the quorum size
	established uint64 // how often enough subscriptions came to stand
}

// Waiter is one call that waits in a Queue. It is in one queue at a time.
type Waiter struct {
	Owner      any // whose waiter it is: for the caller of Next
	retry      Retry
	prev, next *Waiter
}

// retryCount is how many waiters have the same bounds.
type retryCount struct {
	retry   Retry
	waiters int
}

const (
	// maxPosition bounds the steps that a waiter grants to others.
	maxPosition = 32
	// maxBackoff bounds the pause while nodes disagree. They do so for long beside a holder of a bare quorum: the waiters get the
	// votes that it lacks, give them back, and so wake each other.
	maxBackoff = time.Second
	// probeRefusalSteps is how long the refusal of the probe node is taken for that of all.
	probeRefusalSteps = 10
)

// Init makes q an empty queue for a lock of quorum out of so many nodes, at most 64. First is how the first attempt asks. Random
// makes the source of the jitter, when it is needed first.
func (q *Queue) Init(nodes, quorum int, first Approach, random func() *rand.Rand) {
	*q = Queue{nodes: nodes, quorum: quorum, approach: first, random: random}
}

// Next returns the head and when it is to ask. It returns false while there is nothing to wait for: the queue is empty, or the
// head's attempt is under way.
func (q *Queue) Next() (head *Waiter, at clock.Instant, ok bool) {
	return q.head, q.next, q.head != nil && !q.attempting
}

// Empty tells whether nobody waits.
func (q *Queue) Empty() bool { return q.head == nil }

// Join puts a waiter at the end. The queue polls by the most eager bounds of its waiters.
func (q *Queue) Join(w *Waiter, retry Retry, at Moment) {
	before := q.retryBounds()
	w.retry, w.prev, w.next = retry, q.tail, nil
	q.countRetry(retry, 1)
	if q.tail == nil {
		q.head, q.tail = w, w
		q.next = at.Now
		return
	}
	q.tail.next, q.tail = w, w
	if q.retryBounds() != before && !q.attempting {
		q.next = min(q.next, at.Now.Add(q.poll(-1, at.Step)))
	}
}

// Begin tells whether the waiter is to ask now, and how. If so its attempt is under way, until Refused, Acquired or Leave.
func (q *Queue) Begin(w *Waiter, at Moment) (approach Approach, due bool) {
	if q.head != w || q.attempting || at.Now.Before(q.next) {
		return 0, false
	}
	q.attempting, q.wakeAtBegin = true, q.wake
	return q.approach, true
}

// Acquired takes the head out: its attempt has got the lock, for so long unless it renews or releases it.
func (q *Queue) Acquired(lease time.Duration, at Moment) {
	q.attempting = false
	q.remove(q.head)
	if q.head == nil {
		return
	}
	q.position, q.ranked = max(q.listeners-1, 0), true
	q.disagreements, q.failures = 0, 0
	q.attemptAt(AskAll, at.Now.Add(q.poll(lease, 0)))
}

// Leave takes a waiter out that gives up, wherever it stands. If its attempt is under way, that ends in vain.
func (q *Queue) Leave(w *Waiter, at Moment) {
	if q.head == w && q.attempting {
		q.attempting = false
		q.next = at.Now // what was heard during the attempt goes with it
	}
	q.remove(w)
}

// Refused ends the head's attempt: it failed, and the head goes on waiting.
func (q *Queue) Refused(r Result, at Moment) {
	q.attempting = false
	if !r.Held {
		q.attemptAt(AskAll, at.Now.Add(q.retryAfter(r.Wait)))
		q.failures++
		return
	}
	if q.subscriptionsStand() {
		q.failures = 0
	}
	if r.Listeners > 0 {
		q.listeners = r.Listeners
	}
	others := max(q.listeners-1, 0)
	if q.ranked {
		others = min(others, q.position) // who came since stands behind
	}
	q.position, q.ranked = others, q.subscriptionsStand()

	switch {
	case q.wake.releases > q.wakeAtBegin.releases:
		q.attemptAfterRelease(at)
	case r.Votes > 0:
		q.disagreements++
		wait := at.Step/2 + q.backoff(at.Step)
		if r.Wait > 0 {
			wait = min(wait, r.Wait+time.Millisecond)
		}
		q.attemptAt(ProbeFirst, at.Now.Add(wait))
	case q.wake.established > q.wakeAtBegin.established:
		q.attemptAt(ProbeFirst, at.Now)
	case q.approach == ProbeFirst && q.quorum < q.nodes:
		// Most likely another process has the lock, but the probe node may stand alone.
		q.disagreements++
		wait := time.Duration(probeRefusalSteps+q.position) * at.Step
		q.attemptAt(AskAll, at.Now.Add(max(wait, q.backoff(at.Step))))
	default:
		q.disagreements = max(q.disagreements-1, 0) // not 0: another's passing vote can make the nodes agree for once
		q.attemptAt(AskAll, at.Now.Add(q.poll(r.Wait, at.Step)))
		if !q.subscriptionsStand() {
			q.failures++
		}
	}
}

// Subscribed: the subscription on a node stands. When enough do, the head asks again: the lock may have been released before.
func (q *Queue) Subscribed(node int, at Moment) {
	before := q.subscriptionsStand()
	q.subscribed |= 1 << node
	q.messageCounts()[node] = q.wake.releases // what was published before counts no more
	if before || !q.subscriptionsStand() {
		return
	}
	q.wake.established++
	q.failures = 0
	if !q.attempting && at.Now.Before(q.next) {
		q.attemptAt(ProbeFirst, at.Now)
	}
}

// Unsubscribed: the subscription on a node stands no more.
func (q *Queue) Unsubscribed(node int, at Moment) {
	q.subscribed &^= 1 << node
	if !q.subscriptionsStand() && !q.attempting {
		q.next = min(q.next, at.Now.Add(q.retryAfter(-1)))
	}
}

// Message: a node published a release.
func (q *Queue) Message(node int, at Moment) {
	messages := q.messageCounts()
	messages[node]++
	if releases := quorumLargest(messages, q.quorum); releases > q.wake.releases {
		q.wake.releases, q.disagreements = releases, 0
		if q.attempting {
			q.position = max(q.position-1, 0)
		} else {
			q.attemptAfterRelease(at)
		}
		return
	}
	if messages[node] <= q.wake.releases || q.attempting { // the rest of a release that was counted
		return
	}
	// The other nodes may be dead, or their messages lost.
	wait := max(time.Duration(2+q.position)*at.Step, q.backoff(at.Step))
	if soon := at.Now.Add(wait); soon.Before(q.next) {
		q.attemptAt(ProbeFirst, soon)
	}
}

// attemptAfterRelease lets those who come first ask first.
func (q *Queue) attemptAfterRelease(at Moment) {
	approach := ProbeFirst
	// Where all nodes are needed, one vote of another's spoils an attempt, and votes given back on all nodes look like a
	// release: there only the probe keeps order.
	if q.position == 0 && q.ranked && q.quorum < q.nodes {
		approach = AskAll
	}
	q.attemptAt(approach, at.Now.Add(time.Duration(min(q.position, maxPosition))*at.Step))
	q.position = max(q.position-1, 0)
}

func (q *Queue) attemptAt(approach Approach, at clock.Instant) { q.next, q.approach = at, approach }

// subscriptionsStand tells whether a release will be heard: every quorum that publishes it has a node whose subscription stands.
func (q *Queue) subscriptionsStand() bool { return bits.OnesCount64(q.subscribed) >= q.quorum }

// poll is how long to wait for a release that is not heard.
func (q *Queue) poll(lease, step time.Duration) time.Duration {
	if !q.subscriptionsStand() {
		return q.retryAfter(lease)
	}
	most := 5 * q.retryBounds().Max
	wait := most/2 + q.jitter(most/2)
	if lease >= 0 {
		wait = min(wait, lease+time.Millisecond+time.Duration(min(q.position, maxPosition))*step)
	}
	return wait
}

// retryAfter is a random time that grows with the number of failures, and ends with the holder's lease.
func (q *Queue) retryAfter(lease time.Duration) time.Duration {
	bounds := q.retryBounds()
	most := min(bounds.Min<<min(q.failures, 10), bounds.Max)
	wait := bounds.Min/2 + q.jitter(most)
	if lease >= 0 {
		wait = min(wait, lease+time.Millisecond)
	}
	return wait
}

// backoff is a random time that doubles with each disagreement.
func (q *Queue) backoff(step time.Duration) time.Duration {
	if q.disagreements == 0 {
		return 0
	}
	most := min(step<<min(q.disagreements, 20), maxBackoff)
	return most/2 + q.jitter(most/2)
}

func (q *Queue) jitter(below time.Duration) time.Duration {
	if q.rng == nil {
		q.rng = q.random()
	}
	return time.Duration(q.rng.Int64N(int64(max(below, 1))))
}

func (q *Queue) messageCounts() []uint64 {
	if q.messages == nil {
		q.messages = make([]uint64, q.nodes)
	}
	return q.messages
}

// quorumLargest is the number of messages that at least quorum nodes have published.
func quorumLargest(messages []uint64, quorum int) uint64 {
	sorted := append(make([]uint64, 0, 8), messages...)
	slices.Sort(sorted)
	return sorted[len(sorted)-quorum]
}

func (q *Queue) remove(w *Waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.prev, w.next = nil, nil
	q.countRetry(w.retry, -1)
}

// retryBounds is the most eager bounds of those who wait: the head must not bind the others to its own.
func (q *Queue) retryBounds() Retry {
	if len(q.retries) == 0 {
		return Retry{}
	}
	eager := q.retries[0].retry
	for _, c := range q.retries[1:] {
		eager.Min, eager.Max = min(eager.Min, c.retry.Min), min(eager.Max, c.retry.Max)
	}
	return eager
}

// countRetry keeps one entry for each bounds: as many as a program has settings, however many wait.
func (q *Queue) countRetry(retry Retry, change int) {
	i := slices.IndexFunc(q.retries, func(c retryCount) bool { return c.retry == retry })
	if i < 0 {
		if q.retries == nil {
			q.retries = q.oneRetry[:0]
		}
		q.retries = append(q.retries, retryCount{retry, change})
		return
	}
	if q.retries[i].waiters += change; q.retries[i].waiters == 0 {
		q.retries = slices.Delete(q.retries, i, i+1)
	}
}
