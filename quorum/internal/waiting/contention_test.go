package waiting

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// contention simulates processes that contend for one lock, each with a queue of its own, by a fake clock. A node is no more
// than an owner and the end of its lease.
type contention struct {
	*fakeclock.Clock
	rng    *rand.Rand
	quorum quorate.Rule
	loss   float64 // of messages
	death  float64 // of holders
	hold   time.Duration
	away   time.Duration // between an acquisition and the next call
	nodes  []simNode
	all    []*contender

	owners  int
	holder  *contender
	freed   clock.Instant // when the last holder released the lock, or its lease ended
	gaps    []time.Duration
	calls   int
	overlap bool

	last    *contender // the last holder
	streak  int        // how often it has acquired the lock in a row, the lock wanted by others at each release
	longest int
}

type simNode struct {
	owner      int // 0 for none
	until      clock.Instant
	subscribed map[*contender]bool
}

// contender acquires the lock, holds it, pauses, and starts again. It is the only waiter of its
// process.
type contender struct {
	contention *contention
	queue      *Queue // of its own; nil while it does not wait for the lock
	waiter     Waiter
	subscribed bool // or has sent the requests
	wants      bool // it waits for the lock
	heard      int  // how many others heard its release, when it asks again at once
	since      clock.Instant
	held       int
}

const (
	simLease = 300 * time.Millisecond
	simHold  = time.Millisecond
	simAway  = 5 * time.Millisecond
	simStep  = time.Millisecond
)

func newContention(seed uint64, contenders int, quorum quorate.Rule, loss, death float64) *contention {
	c := &contention{
		Clock: fakeclock.New(), rng: rand.New(rand.NewPCG(seed, 1)),
		quorum: quorum, loss: loss, death: death, hold: simHold, away: simAway, nodes: make([]simNode, quorum.N),
	}
	c.Advance(time.Hour)
	c.freed = c.Now()
	for i := range c.nodes {
		c.nodes[i].subscribed = map[*contender]bool{}
	}
	for range contenders {
		one := &contender{contention: c}
		c.all = append(c.all, one)
		c.AfterFunc(c.upTo(simAway), one.arrive)
	}
	return c
}

func (c *contention) upTo(most time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(most)))
}

// trip returns the random time that a message takes to or from a node.
func (c *contention) trip() time.Duration { return 50*time.Microsecond + c.upTo(200*time.Microsecond) }

func (c *contention) at() Moment { return Moment{Now: c.Now(), Step: simStep} }

func (one *contender) arrive() {
	c := one.contention
	one.since, one.wants = c.Now(), true
	one.queue = new(Queue)
	one.queue.Init(c.quorum, AskAll, func() *rand.Rand { return c.rng })
	one.queue.Join(&one.waiter, usual, c.at())
	if one.heard > 0 {
		one.queue.Yield(one.heard, c.at())
		one.subscribe()
		one.heard = 0
	}
	one.begin()
}

// begin makes an attempt if one is due, or else runs again when one will be.
func (one *contender) begin() {
	c, q := one.contention, one.queue
	if approach, due := q.Begin(&one.waiter, c.at()); due {
		one.attempt(approach)
		return
	}
	if _, next, ok := q.Next(); ok {
		c.AfterFunc(next.Sub(c.Now()), func() {
			if _, now, ok := q.Next(); ok && one.queue == q && now == next {
				one.begin()
			}
		})
	}
}

// dispatch passes an event to the queue, and starts over if that moved the next attempt.
func (one *contender) dispatch(what func(q *Queue)) {
	_, before, _ := one.queue.Next()
	what(one.queue)
	if _, next, ok := one.queue.Next(); ok && next != before {
		one.begin()
	}
}

func (one *contender) attempt(approach Approach) {
	c := one.contention
	begun := c.Now()
	c.owners++
	owner, granted := c.owners, []int{}
	left, r := len(c.nodes), Result{Held: true, Wait: -1}
	var waits []time.Duration
	var send func(i int)
	answer := func(i int, yes bool, wait time.Duration, subscribed int) {
		r.Listeners = max(r.Listeners, subscribed)
		if waits = append(waits, wait); yes {
			granted = append(granted, i)
		}
		left--
		if approach == ProbeFirst && i == 0 {
			if !yes {
				left = 0
			}
			for j := 1; j < len(c.nodes) && yes; j++ {
				send(j)
			}
		}
		if left > 0 {
			return
		}
		if len(granted) >= c.quorum.Need {
			one.hold(owner, granted, begun)
			return
		}
		slices.Sort(waits)
		if len(waits) >= c.quorum.Need {
			r.Wait = waits[c.quorum.Need-1]
		}
		r.Votes = len(granted)
		for _, i := range granted {
			c.release(i, owner, func(int) {})
		}
		one.refused(r)
	}
	send = func(i int) {
		c.calls++
		c.AfterFunc(c.trip(), func() {
			n, wait := &c.nodes[i], time.Duration(0)
			yes := n.owner == 0 || n.until <= c.Now()
			if yes {
				n.owner, n.until = owner, c.Now().Add(simLease)
			} else {
				wait = n.until.Sub(c.Now())
			}
			subscribed := len(n.subscribed)
			c.AfterFunc(c.trip(), func() { answer(i, yes, wait, subscribed) })
		})
	}
	send(0)
	for i := 1; i < len(c.nodes) && approach == AskAll; i++ {
		send(i)
	}
}

func (one *contender) refused(r Result) {
	c, q := one.contention, one.queue
	if !one.subscribed {
		one.subscribe()
	}
	q.Refused(r, c.at())
	one.begin()
}

func (one *contender) subscribe() {
	c, q := one.contention, one.queue
	one.subscribed = true
	for i := range c.nodes {
		c.AfterFunc(c.trip(), func() {
			if one.queue != q {
				return
			}
			c.nodes[i].subscribed[one] = true
			c.AfterFunc(c.trip(), func() {
				if one.queue == q {
					one.dispatch(func(q *Queue) { q.Subscribed(i, c.at()) })
				}
			})
		})
	}
}

// unsubscribe ends the queue.
func (one *contender) unsubscribe() {
	one.queue, one.subscribed = nil, false
	for _, n := range one.contention.nodes {
		delete(n.subscribed, one)
	}
}

func (one *contender) hold(owner int, granted []int, begun clock.Instant) {
	c := one.contention
	one.queue.Acquired(simLease, c.at())
	one.wants = false
	one.unsubscribe()
	if c.holder != nil {
		c.overlap = true
	}
	if c.last == one && slices.ContainsFunc(c.all, func(other *contender) bool {
		return other.wants && other.since <= c.freed
	}) {
		c.streak++
	} else {
		c.last, c.streak = one, 1
	}
	c.longest = max(c.longest, c.streak)
	one.held++
	c.gaps = append(c.gaps, c.Now().Sub(max(c.freed, one.since)))
	c.holder = one
	holdTime := c.hold
	dies := c.rng.Float64() < c.death
	if dies {
		holdTime = begun.Add(simLease).Sub(c.Now())
	}
	c.AfterFunc(holdTime, func() {
		c.holder, c.freed = nil, c.Now()
		if dies {
			c.AfterFunc(c.away, one.arrive)
			return
		}
		var heard []int
		for _, i := range granted {
			c.release(i, owner, func(subscribed int) {
				if heard = append(heard, subscribed); len(heard) != c.quorum.Need {
					return
				}
				if c.away == 0 {
					one.heard = slices.Min(heard)
				}
				c.AfterFunc(c.away, one.arrive)
			})
		}
	})
}

// release calls done with the number of subscribers that its message reached.
func (c *contention) release(i, owner int, done func(heard int)) {
	c.AfterFunc(c.trip(), func() {
		n := &c.nodes[i]
		if n.owner != owner {
			return
		}
		n.owner = 0
		heard := len(n.subscribed)
		c.AfterFunc(c.trip(), func() { done(heard) })
		for _, one := range c.all { // in a fixed order, unlike the map
			if q := one.queue; n.subscribed[one] && c.rng.Float64() >= c.loss {
				c.AfterFunc(c.trip(), func() {
					if one.queue == q {
						one.dispatch(func(q *Queue) { q.Message(i, c.at()) })
					}
				})
			}
		}
	})
}

var rules = []quorate.Rule{quorate.Majority(3), quorate.Majority(5), quorate.All(3)}

// play lets that much time pass, and returns the shares of those that had the lock the least and the most often.
func (c *contention) play(t *testing.T, d time.Duration) (least, most int) {
	c.Advance(d)
	testkit.Check(t, !c.overlap, "two holders")
	least = c.all[0].held
	for _, one := range c.all {
		least, most = min(least, one.held), max(most, one.held)
	}
	t.Logf("%d acquisitions, %.1f calls each; at most %d in a row, shares %d to %d",
		len(c.gaps), float64(c.calls)/float64(len(c.gaps)), c.longest, least, most)
	return least, most
}

// The time between a release and the next acquisition stays short, and is bounded by a poll or a
// lease when messages or holders are lost. Every contender acquires the lock.
func TestContention(t *testing.T) {
	for _, c := range []struct {
		loss, death float64
		usual, most time.Duration // that the lock is free: the median, the longest
		lasts       time.Duration
	}{
		{loss: 0, usual: 2 * time.Millisecond, most: 100 * time.Millisecond, lasts: 2 * time.Second},
		{loss: 0.3, usual: 10 * time.Millisecond, most: 1200 * time.Millisecond, lasts: 4 * time.Second},
		{loss: 1, usual: 500 * time.Millisecond, most: 1200 * time.Millisecond, lasts: time.Minute},
		{loss: 0.1, death: 0.1, usual: 10 * time.Millisecond, most: 1200 * time.Millisecond, lasts: 20 * time.Second},
	} {
		for _, rule := range rules {
			for _, contenders := range []int{2, 8} {
				name := fmt.Sprintf("%d of %d, %d contenders, %v messages lost, %v holders die",
					rule.Need, rule.N, contenders, c.loss, c.death)
				t.Run(name, func(t *testing.T) {
					w := newContention(uint64(contenders), contenders, rule, c.loss, c.death)
					least, _ := w.play(t, c.lasts)
					gaps := slices.Sorted(slices.Values(w.gaps))
					usual, most := gaps[len(gaps)/2], gaps[len(gaps)-1]
					testkit.Check(t, usual <= c.usual && most <= c.most,
						"the lock was free for %v, at most %v; want %v, at most %v", usual, most, c.usual, c.most)
					testkit.Check(t, least != 0, "a contender never acquired the lock")
				})
			}
		}
	}
}

// Processes that ask again at once take turns.
func TestTurns(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, simLease / 2} {
		for _, rule := range rules {
			for _, contenders := range []int{2, 3, 8} {
				t.Run(fmt.Sprintf("%d of %d, %d contenders, held for %v", rule.Need, rule.N, contenders, hold),
					func(t *testing.T) {
						w := newContention(uint64(contenders), contenders, rule, 0, 0)
						w.hold, w.away = hold, 0
						least, most := w.play(t, 200*max(hold, simStep)*time.Duration(contenders)) // for 200 acquisitions each, or more
						acquired := len(w.gaps)
						fair := float64(acquired) / float64(contenders)
						testkit.Check(t, w.longest <= 2 && float64(most) <= 1.1*fair && float64(least) >= 0.9*fair,
							"%d in a row, shares %d to %d of %d", w.longest, least, most, acquired)
					})
			}
		}
	}
}
