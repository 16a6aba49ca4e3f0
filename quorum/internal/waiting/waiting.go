package waiting

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
)

// Moment is the time of an event.
type Moment struct {
	Now clock.Instant
	// Step is long enough for one waiter's attempt to become visible to the next.
	Step time.Duration
	// Queues is how many queues the process has, because many share its polls.
	Queues int
}

// Result is what the nodes answered to an attempt that failed.
type Result struct {
	Held      bool          // another owner is the reason; else nodes in quarantine or unavailable
	Readers   bool          // of a writer: only readers stood in the way
	Wait      time.Duration // until a quorum can grant, by the nodes' answers; −1: unknown
	Votes     int           // that the attempt got, and gives back
	Listeners int           // processes that subscribe to the channel, this one included; 0 for no answer
}

// Queue holds the waiters of one process for one set of names, or one semaphore. It must not be used before
// [Queue.Init], nor be copied after. It is not safe for concurrent use.
type Queue struct {
	quorum quorate.Rule
	random func() *rand.Rand
	rng    *rand.Rand // made by random on first use

	waiters

	attempting bool          // the head's attempt is under way
	begunAt    clock.Instant // when it, or the last one, began
	next       clock.Instant // when the head's next attempt is due. Invariant: not after now during an attempt, so nothing brings it forward
	approach   Approach      // of the next attempt, or the one under way

	subscribed  quorate.Set // nodes whose subscription is confirmed
	messages    []uint64    // count by node; nil before the first
	wake        wakeSequence
	wakeAtBegin wakeSequence // wake when the attempt under way began

	shared        bool // see Share
	position      int  // how many other processes come first at the next release
	ranked        bool // position was counted while the subscriptions stood
	listeners     int  // Result.Listeners, by the last answer that had it
	disagreements int  // since the last release: split votes and refusals by the probe node, less refusals by all
	yielding      bool // no attempt since Yield
	reserves      bool // a writer that has met readers
	failures      int  // attempts in a row that failed without a holder, or while no release could be heard

	echoesEnd clock.Instant // until then, messages may be of votes that were given back after a split vote
}

// wakeSequence counts the events that call for an attempt. An attempt that began before the last of
// them may have come too early.
type wakeSequence struct {
	releases    uint64 // that a quorum has published
	established uint64 // how often a quorum has confirmed the subscriptions
	others      uint64 // messages during an attempt that made no release
}

const (
	// For probeRefusalSteps steps, a refusal by the probe node counts as one by all nodes.
	probeRefusalSteps = 10
	// After an attempt that got too few votes, messages may be echoes for echoAttempts times its
	// duration: of votes that this attempt and its rivals give back. The votes of several attempts
	// add up to a release. A rival's round trip may be longer.
	echoAttempts = 4
)

// Init makes q an empty queue for a lock. first is the approach of the first attempt. random makes the source of the
// jitter, on first use.
func (q *Queue) Init(quorum quorate.Rule, first Approach, random func() *rand.Rand) {
	*q = Queue{quorum: quorum, approach: first, random: random}
	q.init()
}

// Share makes q the queue of a semaphore, which has several holders. So releases come more often, and a process
// misses some while it subscribes again after its own. Each would cost a step in which a slot is free and nobody
// takes it. So a position counts one less: two processes may attempt at once, the second one probing.
func (q *Queue) Share() { q.shared = true }

// Next returns the head, and when its next attempt is due. ok is false while none will be: the
// queue is empty, or an attempt is under way.
func (q *Queue) Next() (head *Waiter, at clock.Instant, ok bool) {
	return q.head(), q.next, q.head() != nil && !q.attempting
}

// Empty reports whether the queue has no waiters.
func (q *Queue) Empty() bool { return q.head() == nil }

// Alone reports whether the queue has no more than one waiter.
func (q *Queue) Alone() bool { return q.ring.next == q.ring.prev }

// Others returns how many other processes subscribed to the channel, according to the last reply that told.
func (q *Queue) Others() int { return max(q.listeners-1, 0) }

// Join adds a waiter at the end. The queue polls by the shortest bounds among its waiters.
func (q *Queue) Join(w *Waiter, retry Retry, at Moment) {
	before := q.retryBounds()
	if q.push(w, retry); q.head() == w {
		q.next = at.Now
		return
	}
	if q.retryBounds() != before {
		q.next = min(q.next, at.Now.Add(q.poll(-1, at)))
	}
}

// Yield makes the first attempt of a new queue follow other processes' attempts: this process has released the lock
// at that time, and `others` processes (at least one) have heard it. It is called after the first Join.
func (q *Queue) Yield(others int, released Moment) {
	q.position, q.ranked, q.listeners = others, true, others+1
	// One step more than after a release that this process hears: it is awake, and the others are
	// yet to wake.
	q.attemptAt(ProbeFirst, released.Now.Add(q.steps(1, released.Step)))
	q.position--
	q.yielding = true
}

// Begin reports whether an attempt of the waiter is due, and its approach. If so, the attempt is
// under way until Refused, Acquired or Leave.
func (q *Queue) Begin(w *Waiter, at Moment) (approach Approach, due bool) {
	if q.head() != w || q.attempting || at.Now.Before(q.next) {
		return 0, false
	}
	q.attempting, q.begunAt, q.wakeAtBegin, q.yielding = true, at.Now, q.wake, false
	if q.reserves {
		return q.approach | reserving, true
	}
	return q.approach, true
}

// Acquired removes the head: its attempt has acquired the lock, for that lease unless it is renewed
// or released. at counts only if the head was not alone.
func (q *Queue) Acquired(lease time.Duration, at Moment) {
	q.attempting, q.reserves = false, false // the grant has ended the reservation: all have the same chance
	q.remove(q.head())
	if q.head() == nil {
		return
	}
	q.position, q.ranked = q.Others(), true
	q.disagreements, q.failures = 0, 0
	at.Step = 0 // a position adds nothing to this process's own lease
	q.attemptAt(AskAll, at.Now.Add(q.poll(lease, at)))
}

// Woken reports whether an event since the last Begin called for an attempt: a release, for example.
// Acquired discards such events: they may be of the lock that was acquired.
func (q *Queue) Woken() bool { return q.wake != q.wakeAtBegin }

// Hasten makes the head's next attempt due at once, after Acquired or Leave, because the next waiter may succeed too.
// No attempt may be under way.
func (q *Queue) Hasten(at Moment) {
	q.attemptAt(AskAll, at.Now)
}

// Leave removes a waiter that gives up, at any place in the queue. If its attempt was under way, the next waiter
// attempts at once, because an event during the attempt may call for it.
func (q *Queue) Leave(w *Waiter) {
	if q.head() == w {
		q.attempting = false
	}
	q.remove(w)
}

// Refused ends the head's attempt, which failed. The head goes on waiting.
func (q *Queue) Refused(r Result, at Moment) {
	q.attempting = false
	if !r.Held {
		wait := q.retryAfter(r.Wait, at)
		if r.Wait >= 0 { // a quorum answers, and only time ends a quarantine, or an operator
			wait = q.poll(r.Wait, at)
		}
		q.attemptAt(AskAll, at.Now.Add(wait))
		q.failures++
		return
	}
	if q.subscriptionsStand() {
		q.failures = 0
	}
	if r.Listeners > 0 {
		q.listeners = r.Listeners
	}
	others := q.Others()
	if q.ranked {
		others = min(others, q.position) // a process that came since stands behind
	}
	q.position, q.ranked = others, q.subscriptionsStand()

	reserved := q.reserves && q.approach == AskAll
	q.reserves = q.reserves || r.Readers
	released := q.wake.releases > q.wakeAtBegin.releases
	if r.Votes > 0 {
		released = released && !q.begunAt.Before(q.echoesEnd)
		q.echoesEnd = at.Now.Add(max(at.Step, echoAttempts*at.Now.Sub(q.begunAt)))
	}
	switch {
	case released:
		q.attemptAfterRelease(at)
	case r.Readers && !reserved:
		q.attemptAt(AskAll, at.Now)
	case r.Readers:
		q.attemptAt(AskAll, at.Now.Add(min(q.poll(r.Wait, at), ReservationLife/2)))
	case r.Votes > 0:
		q.disagreements++
		wait := at.Step/2 + q.backoff(at)
		if r.Wait > 0 {
			wait = min(wait, r.Wait+time.Millisecond)
		}
		q.attemptAt(ProbeFirst, at.Now.Add(wait))
	case q.wake.established > q.wakeAtBegin.established:
		q.attemptAt(ProbeFirst, at.Now)
	case q.wake.others > q.wakeAtBegin.others:
		q.disagreements++
		q.attemptAt(ProbeFirst, at.Now.Add(max(q.steps(2, at.Step), q.backoff(at))))
	case q.approach == ProbeFirst && !q.quorum.NeedsAll():
		// Most likely another process has the lock, but the probe node may be alone in refusing.
		q.disagreements++
		wait := q.steps(probeRefusalSteps, at.Step)
		q.attemptAt(AskAll, at.Now.Add(max(wait, q.backoff(at), q.sharedPoll(at))))
	default:
		// Not 0: a passing vote for another owner can make all nodes refuse once.
		q.disagreements = max(q.disagreements-1, 0)
		q.attemptAt(AskAll, at.Now.Add(q.poll(r.Wait, at)))
		if !q.subscriptionsStand() {
			q.failures++
		}
	}
}

// Subscribed: a node has confirmed its subscription. If the subscriptions stand from now on, an attempt is due: the
// lock may have been released before.
func (q *Queue) Subscribed(node int, at Moment) {
	before := q.subscriptionsStand()
	q.subscribed |= quorate.Of(node)
	q.messageCounts()[node] = q.wake.releases // earlier messages of the node count for no later release
	if before || !q.subscriptionsStand() {
		return
	}
	q.wake.established++
	q.failures = 0
	soon := at.Now
	if q.wake.established > 1 { // on a new connection, all queues of the process subscribe again
		soon = soon.Add(q.sharedPoll(at))
	}
	if !q.yielding && soon.Before(q.next) {
		q.attemptAt(ProbeFirst, soon)
	}
}

// Unsubscribed: the subscription on a node has ended.
func (q *Queue) Unsubscribed(node int, at Moment) {
	q.subscribed &^= quorate.Of(node)
	if !q.subscriptionsStand() {
		q.next = min(q.next, at.Now.Add(q.retryAfter(-1, at)))
	}
}

// Message: a node has published that the lock became free there. It reports whether a quorum
// has, with this message.
func (q *Queue) Message(node int, at Moment) (released bool) {
	if q.yielding && !q.subscribed.Has(node) {
		return false // of this process's own release, by a subscription that has yet to end
	}
	messages := q.messageCounts()
	messages[node]++
	if messages[node] <= q.wake.releases { // the rest of a release that has been counted
		return false
	}
	releases := quorate.Largest(q.quorum, messages) // that a quorum has published
	risen := releases > q.wake.releases
	q.wake.releases = max(q.wake.releases, releases)
	if risen && !at.Now.Before(q.echoesEnd) {
		q.disagreements = 0
		if q.attempting {
			q.position = max(q.position-1, 0)
		} else {
			q.attemptAfterRelease(at)
		}
		return true
	}
	if q.attempting {
		q.wake.others++
		return false
	}
	// The other nodes may be dead, or their messages lost. Or the apparent echo is the holder's release. The backoff
	// goes on: otherwise the same attempts would meet again.
	wait := max(q.steps(2, at.Step), q.backoff(at))
	if soon := at.Now.Add(wait); soon.Before(q.next) {
		q.attemptAt(ProbeFirst, soon)
	}
	return false
}

// attemptAfterRelease schedules an attempt after the processes that come first have made theirs.
func (q *Queue) attemptAfterRelease(at Moment) {
	approach := ProbeFirst
	// If all nodes are needed, one vote for another owner spoils an attempt, and votes given
	// back on all nodes look like a release: then only the probe keeps the order.
	if q.position == 0 && q.ranked && !q.quorum.NeedsAll() {
		approach = AskAll
	}
	q.attemptAt(approach, at.Now.Add(q.steps(0, at.Step)))
	q.position = max(q.position-1, 0)
}

// attemptAt schedules the next attempt.
func (q *Queue) attemptAt(approach Approach, at clock.Instant) { q.next, q.approach = at, approach }

// subscriptionsStand reports whether a release will be heard: every quorum that publishes it has a
// node that has confirmed its subscription.
func (q *Queue) subscriptionsStand() bool { return q.quorum.Enough(q.subscribed) }

func (q *Queue) messageCounts() []uint64 {
	if q.messages == nil {
		q.messages = make([]uint64, q.quorum.N)
	}
	return q.messages
}
