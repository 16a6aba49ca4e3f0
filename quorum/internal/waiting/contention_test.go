package waiting

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// crowd is processes that contend for one lock, each with a queue of its own, on nodes that are no more than a holder and a time:
// pure, in a time of its own.
type crowd struct {
	rng    *rand.Rand
	now    clock.Instant
	events crowdEvents
	order  int

	quorum int
	loss   float64 // of messages
	death  float64 // of holders
	nodes  []crowdNode
	all    []*contender

	owners  int
	holder  *contender
	freed   clock.Instant // when the last holder let go, or its lease ended
	gaps    []time.Duration
	asked   int
	overlap bool
}

type crowdNode struct {
	owner   int // 0 for none
	until   clock.Instant
	hearing map[*contender]bool
}

// contender takes the lock, holds it, stays away, and comes again. It waits alone in its process.
type contender struct {
	crowd  *crowd
	queue  *Queue // of its own; nil while it does not want the lock
	waiter Waiter
	hears  bool // it has subscribed
	since  clock.Instant
	times  int
	wait   time.Duration // the longest
}

type crowdEvent struct {
	at    clock.Instant
	order int
	do    func()
}

type crowdEvents []crowdEvent

func (e crowdEvents) Len() int { return len(e) }
func (e crowdEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e crowdEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *crowdEvents) Push(x any)   { *e = append(*e, x.(crowdEvent)) }
func (e *crowdEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

const (
	crowdLease = 300 * time.Millisecond
	crowdHold  = time.Millisecond
	crowdAway  = 5 * time.Millisecond
	crowdStep  = time.Millisecond
)

func newCrowd(seed uint64, contenders, nodes, quorum int, loss, death float64) *crowd {
	c := &crowd{
		rng: rand.New(rand.NewPCG(seed, 1)), now: clock.Instant(time.Hour),
		quorum: quorum, loss: loss, death: death, nodes: make([]crowdNode, nodes),
	}
	c.freed = c.now
	for i := range c.nodes {
		c.nodes[i].hearing = map[*contender]bool{}
	}
	for range contenders {
		one := &contender{crowd: c}
		c.all = append(c.all, one)
		c.after(c.upTo(crowdAway), one.arrive)
	}
	return c
}

func (c *crowd) upTo(most time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(most)))
}

// trip is how long something takes on its way to or from a node.
func (c *crowd) trip() time.Duration { return 50*time.Microsecond + c.upTo(200*time.Microsecond) }

func (c *crowd) after(d time.Duration, do func()) {
	c.order++
	heap.Push(&c.events, crowdEvent{c.now.Add(d), c.order, do})
}

func (c *crowd) run(d time.Duration) {
	for end := c.now.Add(d); len(c.events) > 0 && c.events[0].at < end; {
		e := heap.Pop(&c.events).(crowdEvent)
		c.now = e.at
		e.do()
	}
}

func (c *crowd) at() Moment { return Moment{c.now, crowdStep} }

func (one *contender) arrive() {
	c := one.crowd
	one.since = c.now
	one.queue = new(Queue)
	one.queue.Init(len(c.nodes), c.quorum, AskAll, func() *rand.Rand { return c.rng })
	one.queue.Join(&one.waiter, usual, c.at())
	one.look()
}

// look asks if it is time to, and comes back when it will be.
func (one *contender) look() {
	c, q := one.crowd, one.queue
	if approach, due := q.Begin(&one.waiter, c.at()); due {
		one.ask(approach)
		return
	}
	if _, next, ok := q.Next(); ok {
		c.after(next.Sub(c.now), func() {
			if _, now, ok := q.Next(); ok && one.queue == q && now == next {
				one.look()
			}
		})
	}
}

// tell has an event happen to one who waits.
func (one *contender) tell(what func(q *Queue)) {
	_, before, _ := one.queue.Next()
	what(one.queue)
	if _, next, ok := one.queue.Next(); ok && next != before {
		one.look()
	}
}

func (one *contender) ask(how Approach) {
	c := one.crowd
	begun := c.now
	c.owners++
	owner, granted := c.owners, []int{}
	left, r := len(c.nodes), Result{Held: true, Wait: -1}
	var waits []time.Duration
	var send func(i int)
	answer := func(i int, yes bool, wait time.Duration, hearing int) {
		r.Listeners = max(r.Listeners, hearing)
		if waits = append(waits, wait); yes {
			granted = append(granted, i)
		}
		left--
		if how == ProbeFirst && i == 0 {
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
		if len(granted) >= c.quorum {
			one.hold(owner, granted, begun)
			return
		}
		slices.Sort(waits)
		if len(waits) >= c.quorum {
			r.Wait = waits[c.quorum-1]
		}
		r.Votes = len(granted)
		for _, i := range granted {
			c.release(i, owner)
		}
		one.refused(r)
	}
	send = func(i int) {
		c.asked++
		c.after(c.trip(), func() {
			n, wait := &c.nodes[i], time.Duration(0)
			yes := n.owner == 0 || n.until <= c.now
			if yes {
				n.owner, n.until = owner, c.now.Add(crowdLease)
			} else {
				wait = n.until.Sub(c.now)
			}
			hearing := len(n.hearing)
			c.after(c.trip(), func() { answer(i, yes, wait, hearing) })
		})
	}
	send(0)
	for i := 1; i < len(c.nodes) && how == AskAll; i++ {
		send(i)
	}
}

func (one *contender) refused(r Result) {
	c, q := one.crowd, one.queue
	if !one.hears {
		one.hears = true
		for i := range c.nodes {
			c.after(c.trip(), func() {
				if one.queue != q {
					return
				}
				c.nodes[i].hearing[one] = true
				c.after(c.trip(), func() {
					if one.queue == q {
						one.tell(func(q *Queue) { q.Subscribed(i, c.at()) })
					}
				})
			})
		}
	}
	q.Refused(r, c.at())
	one.look()
}

func (one *contender) hold(owner int, granted []int, begun clock.Instant) {
	c := one.crowd
	one.queue.Acquired(crowdLease, c.at())
	one.queue, one.hears = nil, false
	for i := range c.nodes {
		delete(c.nodes[i].hearing, one)
	}
	if c.holder != nil {
		c.overlap = true
	}
	one.times++
	one.wait = max(one.wait, c.now.Sub(one.since))
	c.gaps = append(c.gaps, c.now.Sub(max(c.freed, one.since)))
	c.holder = one
	stays := crowdHold
	dies := c.rng.Float64() < c.death
	if dies {
		stays = begun.Add(crowdLease).Sub(c.now)
	}
	c.after(stays, func() {
		c.holder, c.freed = nil, c.now
		if !dies {
			for _, i := range granted {
				c.release(i, owner)
			}
		}
		c.after(crowdAway, one.arrive)
	})
}

func (c *crowd) release(i, owner int) {
	c.after(c.trip(), func() {
		n := &c.nodes[i]
		if n.owner != owner {
			return
		}
		n.owner = 0
		for _, one := range c.all { // not the map, for its order
			if q := one.queue; n.hearing[one] && c.rng.Float64() >= c.loss {
				c.after(c.trip(), func() {
					if one.queue == q {
						one.tell(func(q *Queue) { q.Message(i, c.at()) })
					}
				})
			}
		}
	})
}

// Processes in turns: the lock never lies free for longer than it takes the nets to catch what was lost, and for a moment only
// while nothing is; everybody gets it.
func TestTurnsOfACrowd(t *testing.T) {
	for _, c := range []struct {
		loss, death float64
		usual, most time.Duration // the lock lies free: the median, the longest
		lasts       time.Duration
	}{
		{loss: 0, usual: 2 * time.Millisecond, most: 100 * time.Millisecond, lasts: 2 * time.Second},
		{loss: 0.3, usual: 10 * time.Millisecond, most: 1200 * time.Millisecond, lasts: 4 * time.Second},
		{loss: 1, usual: 500 * time.Millisecond, most: 1200 * time.Millisecond, lasts: time.Minute},
		{loss: 0.1, death: 0.1, usual: 10 * time.Millisecond, most: 1200 * time.Millisecond, lasts: 20 * time.Second},
	} {
		for _, rule := range []struct{ nodes, quorum int }{{3, 2}, {5, 3}, {3, 3}} {
			for _, contenders := range []int{2, 8} {
				t.Run(fmt.Sprintf("%d of %d, %d contenders, %v messages lost, %v holders die", rule.quorum, rule.nodes, contenders, c.loss, c.death), func(t *testing.T) {
					w := newCrowd(uint64(contenders), contenders, rule.nodes, rule.quorum, c.loss, c.death)
					w.run(c.lasts)
					gaps := slices.Sorted(slices.Values(w.gaps))
					usual, most := gaps[len(gaps)/2], gaps[len(gaps)-1]
					least, longest := w.all[0].times, time.Duration(0)
					for _, one := range w.all {
						least, longest = min(least, one.times), max(longest, one.wait)
					}
					t.Logf("%d turns, %.1f calls each; free %v, at most %v; shares from %d, longest wait %v",
						len(gaps), float64(w.asked)/float64(len(gaps)), usual, most, least, longest)
					if w.overlap {
						t.Error("two holders")
					}
					if usual > c.usual || most > c.most {
						t.Errorf("the lock lay free for %v, at most %v; want %v, at most %v", usual, most, c.usual, c.most)
					}
					if least == 0 {
						t.Error("one never got it")
					}
				})
			}
		}
	}
}
