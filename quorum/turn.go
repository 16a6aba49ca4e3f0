package quorum

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// approach is how an attempt asks the nodes.
type approach int

const (
	// everyone: all at once. One round trip; when several ask at once, each may get less than it needs.
	everyone approach = iota
	// knocking: one node, the same for all who ask, and the others once that one has granted. Whoever is refused has cost one
	// command, holds nothing and releases nothing, so that several who ask at once do not hinder each other.
	knocking
)

// refusal is what an attempt that failed leaves to go by.
type refusal struct {
	err     *Error
	how     approach
	cut     bool          // it was ended before its outcome was certain
	saw     news          // when it began
	hint    time.Duration // until enough nodes can grant it, going by what they said; −1 when that is not known
	votes   int           // that it had, and gave back
	waiting int           // how many listen to the channel, in as many processes; 0 when no node told
}

// news is what calls for an attempt: one that began before it may have come too early.
type news struct {
	freed uint64 // releases by the rule: as many as the need-th largest of turn.heardOf
	stood uint64 // how often enough subscriptions came to stand
}

// turn decides when the first waiter of a queue asks the nodes. The order is that of a queue over all processes, as far as can be
// told without one: who came to wait counts how many others do (ahead), lets as many releases pass, and asks at once when the next
// one comes. Who is not to be the next asks later, by a slot of time for each who comes before: it never relies on them.
//
// Times of its own (next) make sure that nobody is stranded when messages are lost, nodes die, or a holder does.
type turn struct {
	dice *rand.Rand
	need int

	next clock.Instant
	how  approach

	listens uint64   // bit by node: its subscription stands
	heardOf []uint64 // messages, by node
	news

	placed bool
	since  uint64 // freed, when ahead was counted
	ahead  int    // others whose turn comes first
	crowd  int    // all who wait, as the nodes said last
	splits int    // attempts in a row that got some votes and too few
	odd    int    // attempts since the last release for which the nodes disagreed, or of which only the door told
	polls  int    // attempts in a row without ears
	tries  int    // attempts in a row that nobody else's lock was the reason for
	last   *Error // of the attempts; nil before any is known
}

func newTurn(nodes, need int, dice *rand.Rand) turn {
	return turn{dice: dice, need: need, heardOf: make([]uint64, nodes), next: clock.Instant(1<<63 - 1)}
}

const (
	// minSlot and maxSlot bound the time for which those behind let another go first.
	minSlot = time.Millisecond
	maxSlot = 20 * time.Millisecond
	maxTurn = 32 // slots
	// maxOdd is how many attempts in a row contenders may spoil for each other before it is not them.
	maxOdd  = 6
	maxLull = 500 * time.Millisecond
)

// hasEars tells whether a release will be heard of: any majority that publishes it has a node that is listened to.
func (t *turn) hasEars() bool { return bits.OnesCount64(t.listens) >= t.need }

// place is how many come first when the lock is next released, or, with released, has just been.
func (t *turn) place(released int) int {
	return min(max(t.ahead+released-int(t.freed-t.since), 0), maxTurn)
}

func (t *turn) within(most time.Duration) time.Duration {
	return time.Duration(t.dice.Int64N(int64(most)))
}

// listening: a subscription stands. When enough do, the lock is tried again: it may have been released just before.
func (t *turn) listening(node int, now clock.Instant) {
	had := t.hasEars()
	t.listens |= 1 << node
	t.heardOf[node] = t.freed
	if had || !t.hasEars() {
		return
	}
	t.stood++
	t.polls = 0
	if now.Before(t.next) {
		t.next, t.how = now, knocking
	}
}

func (t *turn) deaf(b bounds, node int, now clock.Instant) {
	t.listens &^= 1 << node
	if !t.hasEars() {
		t.next = min(t.next, now.Add(b.after(t.dice, 0, -1)))
	}
}

// heard: a node released the lock. When enough have, it is the turn of whoever is the next; when some have, and the others may
// be dead or their messages lost, a little later all the same.
func (t *turn) heard(node int, now clock.Instant, slot time.Duration) {
	t.heardOf[node]++
	freed := t.countFreed()
	switch {
	case freed > t.freed:
		t.freed, t.odd = freed, 0
		t.released(now, slot)
	case t.heardOf[node] > t.freed:
		if soon := now.Add(max(time.Duration(2+t.place(1))*slot, t.lull(slot))); soon.Before(t.next) {
			t.next, t.how = soon, knocking
		}
	}
}

func (t *turn) countFreed() uint64 {
	all := append(make([]uint64, 0, 8), t.heardOf...)
	slices.Sort(all)
	return all[len(all)-t.need]
}

func (t *turn) released(now clock.Instant, slot time.Duration) {
	place := t.place(1)
	t.next, t.how = now.Add(time.Duration(place)*slot), knocking
	// Where all nodes are needed, one vote of another's spoils an attempt, and the votes given back on all of them look like a
	// release: only the door keeps order then.
	if place == 0 && t.placed && t.need < len(t.heardOf) {
		t.how = everyone
	}
}

// refused: the first waiter has asked in vain.
func (t *turn) refused(b bounds, r *refusal, now clock.Instant, slot time.Duration) {
	if !errors.Is(r.err, ErrHeld) {
		t.last = r.err
		t.next, t.how = now.Add(b.after(t.dice, t.tries, r.hint)), everyone
		t.tries++
		return
	}
	t.tries = 0
	if t.last == nil || r.how == everyone {
		t.last = r.err // with what all nodes said
	}
	if r.waiting > 0 {
		t.crowd = r.waiting
	}
	others := max(t.crowd-1, 0)
	if t.placed {
		others = min(others, t.place(0))
	}
	t.ahead, t.since, t.placed = others, r.saw.freed, t.hasEars()

	switch {
	case t.freed > r.saw.freed: // released while it asked
		t.released(now, slot)
	case r.votes > 0:
		t.splits++
		t.disagreed()
		wait := max(slot/2+t.within(slot<<min(t.splits, 5)), t.lull(slot))
		if r.hint > 0 {
			wait = min(wait, r.hint+time.Millisecond)
		}
		t.next, t.how = now.Add(wait), knocking
		return
	case t.stood > r.saw.stood: // it may have been released before enough nodes were listened to, and after they had answered
		t.next, t.how = now, knocking
	case r.how == knocking && t.need < len(t.heardOf):
		// Most likely it was another's turn, but that one node may stand alone. Whoever is the holder is seen by all then.
		t.disagreed()
		t.next, t.how = now.Add(max(time.Duration(10+t.ahead)*slot, t.lull(slot))), everyone
	default:
		t.odd = max(t.odd-1, 0) // not 0: another's passing vote can make the nodes agree for once
		t.next, t.how = now.Add(t.patience(b, r.hint, slot)), everyone
	}
	t.splits = 0
}

func (t *turn) disagreed() { t.odd = min(t.odd+1, maxOdd+10) }

// lull is a pause when attempt after attempt finds that the nodes disagree: they are not contended for, but held by one who has no
// more of them than it needs. The votes that those who wait get from the others, and give back, tell them all of a release.
func (t *turn) lull(slot time.Duration) time.Duration {
	if t.odd <= maxOdd {
		return 0
	}
	pause := min(slot<<(t.odd-maxOdd), maxLull)
	return pause + t.within(pause)
}

// passed: another waiter of the queue, the first one, has the lock now, for so long unless it renews or releases it.
func (t *turn) passed(b bounds, now clock.Instant, lease time.Duration) {
	t.ahead, t.since, t.placed = max(t.crowd-1, 0), t.freed, true
	t.splits, t.odd, t.polls, t.tries = 0, 0, 0, 0
	t.next, t.how = now.Add(t.patience(b, lease, 0)), everyone
}

// patience is how long to wait for a release of which nothing is heard.
func (t *turn) patience(b bounds, hint, slot time.Duration) time.Duration {
	if !t.hasEars() {
		t.polls++
		return b.after(t.dice, t.polls-1, hint)
	}
	wait := t.slowPoll(b)
	if hint >= 0 {
		wait = min(wait, hint+time.Millisecond+time.Duration(t.place(0))*slot)
	}
	return wait
}

// slowPoll is how long to wait when a release is heard of, unless all messages of it are lost.
func (t *turn) slowPoll(b bounds) time.Duration { return 5*b.max/2 + t.within(5*b.max/2) }

// hurry: the queue waits by shorter bounds from now on.
func (t *turn) hurry(b bounds, now clock.Instant) {
	wait := b.after(t.dice, max(t.tries, t.polls), -1)
	if t.hasEars() && t.tries == 0 {
		wait = t.slowPoll(b)
	}
	t.next = min(t.next, now.Add(wait))
}

// pace measures how long a node takes to answer.
type pace struct{ nanos atomic.Int64 }

func (p *pace) saw(d time.Duration) {
	if old := p.nanos.Load(); old > 0 {
		d = (7*time.Duration(old) + d) / 8
	}
	p.nanos.Store(int64(d))
}

// slot is a time in which one who asks gets so far that those who ask later see it.
func (p *pace) slot() time.Duration {
	return min(max(3*time.Duration(p.nanos.Load()), minSlot), maxSlot)
}
