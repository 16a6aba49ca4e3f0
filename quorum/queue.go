package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// queues are all who wait in this process, for whatever names.
type queues struct {
	mu    sync.Mutex
	byKey map[queueKey]*queue
	// trying are the names for which somebody asks who does not wait yet. Whoever comes meanwhile waits for what becomes of that,
	// or a crowd that comes at once would ask as a crowd.
	trying map[queueKey]struct{}
	// wanted is until when names are taken to be wanted by others, by a hash of the names. Who comes before then knocks: it is hardly
	// its turn.
	wanted [256]clock.Instant
}

// lately is for how long names are taken to be wanted by others when nobody in this process waits for them any more.
const lately = 100 * time.Millisecond

// wantedLocked finds where it stands of some names. Where two share a place, the first attempt takes a round trip more.
func (all *queues) wantedLocked(key queueKey) *clock.Instant {
	sum := uint32(2166136261) // FNV-1a
	for i := range len(key.text) {
		sum = (sum ^ uint32(key.text[i])) * 16777619
	}
	return &all.wanted[sum%uint32(len(all.wanted))]
}

// queue is those who wait in this process for the same names, in order of arrival. The first of them asks the nodes; the others
// cost nothing. It is there while somebody waits.
type queue struct {
	core  *core
	key   queueKey
	stops []func() // of listening

	// Under queues.mu.
	first, last *waiter
	eager       eagerness
	turn        turn
}

// waiter is one call of Lock that waits.
type waiter struct {
	queue *queue
	set   *settings
	wake  chan struct{} // holds one, when the waiter should look whether it is to ask
	alarm clock.Timer   // sends to wake; under queues.mu, and set for the first waiter only

	// Under queues.mu: a list, since anybody may leave at any time, and many at once.
	waits          bool
	before, behind *waiter
}

// addLocked puts a waiter into the queue, in front or at the end.
func (q *queue) addLocked(w *waiter, front bool) {
	w.queue, w.waits = q, true
	switch {
	case q.first == nil:
		q.first, q.last = w, w
	case front:
		w.behind, q.first.before = q.first, w
		q.first = w
	default:
		w.before, q.last.behind = q.last, w
		q.last = w
	}
}

func (q *queue) removeLocked(w *waiter) {
	if w.before == nil {
		q.first = w.behind
	} else {
		w.before.behind = w.behind
	}
	if w.behind == nil {
		q.last = w.before
	} else {
		w.behind.before = w.before
	}
	w.waits, w.before, w.behind = false, nil, nil
}

// queueKey is a set of names, in whatever order they are given. The number of them keeps one name apart from several: it may be
// whatever they make.
type queueKey struct {
	names int
	text  string // the name, or each name with its length before it
}

func keyOf(names []string) queueKey {
	if len(names) == 1 {
		return queueKey{1, names[0]} // without an allocation
	}
	var b strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		fmt.Fprintf(&b, "%d:%s", len(name), name)
	}
	return queueKey{len(names), b.String()}
}

// tryFirst tells whether nobody waits for the names, or is about to. Then the caller is to ask without waiting, in the way that it
// returns, and to call tried or join afterwards.
func (l *Locker) tryFirst(key queueKey) (how approach, first bool) {
	all := &l.core.queues
	all.mu.Lock()
	defer all.mu.Unlock()
	_, trying := all.trying[key]
	if trying || all.byKey[key] != nil {
		return 0, false
	}
	if l.core.clock.Now().Before(*all.wantedLocked(key)) {
		how = knocking
	}
	all.trying[key] = struct{}{}
	return how, true
}

// tried ends what tryFirst began, for one who does not have to wait: it has the lock, or has given up (nil).
func (all *queues) tried(key queueKey, lock *Lock) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.trying, key)
	if q := all.byKey[key]; q != nil {
		q.nextLocked(lock, true)
	}
}

// join puts a waiter into the queue for the names: at the end, or, if it was the first to ask, in front, with what became of that.
func (l *Locker) join(key queueKey, names []string, before *refusal) *waiter {
	c := l.core
	w := &waiter{set: l.set, wake: make(chan struct{}, 1)}
	settled := false
	defer func() {
		switch { // when the clock or the source of randomness, which are the caller's, panicked
		case settled:
		case w.queue != nil:
			defer w.alarm.Stop()
			w.leave(nil, true)
		case before != nil:
			c.queues.tried(key, nil)
		}
	}()
	w.alarm = l.set.clock.AfterFunc(time.Hour, w.rouse)
	if fresh := w.enqueue(c, key, before); fresh {
		w.queue.listen(names)
	}
	settled = true
	return w
}

// rouse has the waiter look whether it is to ask.
func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// enqueue tells whether the queue is a fresh one, that does not listen yet.
func (w *waiter) enqueue(c *core, key queueKey, before *refusal) (fresh bool) {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	now := c.clock.Now()
	q := c.queues.byKey[key]
	if fresh = q == nil; fresh {
		seed := uint64(c.dice.below(1 << 62))
		q = &queue{core: c, key: key, turn: newTurn(len(c.nodes), c.need, rand.New(rand.NewPCG(seed, seed)))}
		c.queues.byKey[key] = q
	}
	_, trying := c.queues.trying[key]
	q.addLocked(w, before != nil)
	sooner := q.eager.joined(w.set.retry)
	switch {
	case before != nil:
		delete(c.queues.trying, key)
		q.turn.refused(q.boundsLocked(), before, now, c.pace.slot())
	case fresh && !trying: // the queue behind which it was to wait is gone
		q.turn.next = now
	case sooner && !trying:
		q.turn.hurry(q.boundsLocked(), now)
	}
	if q.first == w || sooner {
		q.armLocked()
	}
	return fresh
}

// listen subscribes to the channels of the names on all nodes. It is called once, by a waiter of the queue.
func (q *queue) listen(names []string) {
	stops := make([]func(), 0, len(q.core.nodes)*len(names))
	defer func() {
		q.core.queues.mu.Lock()
		defer q.core.queues.mu.Unlock()
		q.stops = stops
	}()
	for i, n := range q.core.nodes {
		for k, name := range names {
			stops = append(stops, n.Listen(scripts.Channel(name), &ear{queue: q, node: i, first: k == 0}))
		}
	}
}

// leave takes a waiter out, wherever it stands, if it has not left. Whoever is the first then asks next: got tells that the one who
// leaves has the lock, asked that it asked and has not.
func (w *waiter) leave(got *Lock, asked bool) {
	q := w.queue
	all := &q.core.queues
	var stops []func()
	defer func() { // without the mutex
		for _, stop := range stops {
			stop()
		}
	}()
	all.mu.Lock()
	defer all.mu.Unlock()
	if !w.waits {
		return
	}
	first := q.first == w
	q.removeLocked(w)
	q.eager.left(w.set.retry)
	switch {
	case q.first == nil:
		delete(all.byKey, q.key)
		stops = q.stops
		*all.wantedLocked(q.key) = q.core.clock.Now().Add(lately)
	case first:
		q.nextLocked(got, asked)
	}
}

// nextLocked hands the turn to the first waiter: the one before has the lock, or has asked in vain, or neither.
func (q *queue) nextLocked(got *Lock, asked bool) {
	armed := false
	defer func() {
		if !armed { // the clock, which is the caller's, panicked
			q.first.rouse()
		}
	}()
	now := q.core.clock.Now()
	switch {
	case got != nil:
		q.turn.passed(q.boundsLocked(), now, got.hold.set.lease)
		q.turn.last = q.core.unasked(ErrHeld)
	case asked:
		q.turn.next = now // what it had heard of is lost with it
	}
	q.armLocked()
	armed = true
}

// armLocked has the first waiter wake when it is to ask, by its own timer also when that is now: so whoever changes the turn never
// has a waiter run in its stead.
func (q *queue) armLocked() {
	q.first.alarm.Reset(max(q.turn.next.Sub(q.core.clock.Now()), 0))
}

// wait waits for its turn and asks, until it holds the lock or there is no use in going on.
func (v *visit) wait(ctx context.Context) *Error {
	l, w := v.locker, v.waiter
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
		case <-l.core.closed:
		}
		if ended := l.ending(ctx); ended != nil {
			return w.giveUp(v.names, ended)
		}
		how, saw, due := w.due()
		if !due {
			continue
		}
		lock, r := l.attempt(ctx, v.names, how)
		if v.lock = lock; lock != nil {
			w.alarm.Stop()
			w.leave(lock, true)
			v.waiter = nil
			return nil
		}
		if ctx.Err() != nil || r.err.permanent(len(l.core.nodes)) {
			err := r.err
			if last := w.last(); r.cut && last != nil { // it knows less than the one before
				err = last.ended(v.names, l.ending(ctx))
			}
			return err
		}
		r.how, r.saw = how, saw
		w.refused(r)
	}
}

// ending is what has ended the waiting, if anything has.
func (l *Locker) ending(ctx context.Context) []error {
	causes := contextError(ctx)
	if l.core.isClosed() {
		causes = append(causes, fmt.Errorf("quorumlock: %w", ErrClosed))
	}
	return causes
}

// due tells whether the waiter is to ask now, and how.
func (w *waiter) due() (how approach, saw news, due bool) {
	q := w.queue
	q.core.queues.mu.Lock()
	defer q.core.queues.mu.Unlock()
	if q.first != w {
		return 0, saw, false
	}
	if q.core.clock.Now().Before(q.turn.next) {
		q.armLocked()
		return 0, saw, false
	}
	return q.turn.how, q.turn.news, true
}

// refused takes what became of the first waiter's attempt.
func (w *waiter) refused(r *refusal) {
	q := w.queue
	q.core.queues.mu.Lock()
	defer q.core.queues.mu.Unlock()
	q.turn.refused(q.boundsLocked(), r, q.core.clock.Now(), q.core.pace.slot())
	select { // before arming: what comes of that must stay
	case <-w.wake: // by what came while it asked
	default:
	}
	q.armLocked()
}

// giveUp leaves, and makes an error of what is known of the last attempt, whosever it was.
func (w *waiter) giveUp(names []string, causes []error) *Error {
	last := w.last()
	switch {
	case last != nil:
	case slices.Contains(causes, context.DeadlineExceeded): // somebody asks, and has not been answered
		last = w.queue.core.unasked(ErrUnavailable)
	default:
		last = w.queue.core.unasked()
	}
	w.leave(nil, false)
	return last.ended(names, causes)
}

// last is the error of the last attempt of which the outcome is known, nil when there is none.
func (w *waiter) last() *Error {
	all := &w.queue.core.queues
	all.mu.Lock()
	defer all.mu.Unlock()
	return w.queue.turn.last
}

// ended is the error of one who has waited and gives up.
func (e *Error) ended(names []string, causes []error) *Error {
	ended := *e
	ended.Names, ended.causes = names, append(slices.Clone(e.causes), causes...)
	return &ended
}

// unasked is the error of one who has not asked any node, but knows why it would be in vain.
func (c *core) unasked(reason ...error) *Error {
	return &Error{Op: "lock", Need: c.need, Unknown: len(c.nodes), causes: append([]error{ErrNotAcquired}, reason...)}
}

// ear hears of one channel on one node (node.Listener).
type ear struct {
	queue *queue
	node  int
	first bool // of the names: it speaks for the node
}

var _ node.Listener = (*ear)(nil)

func (e *ear) Listening() {
	if e.first {
		e.tell(func(t *turn, now clock.Instant) { t.listening(e.node, now) })
	}
}

func (e *ear) Deaf() {
	if e.first {
		e.tell(func(t *turn, now clock.Instant) { t.deaf(e.queue.boundsLocked(), e.node, now) })
	}
}

func (e *ear) Heard() {
	e.tell(func(t *turn, now clock.Instant) { t.heard(e.node, now, e.queue.core.pace.slot()) })
}

// tell changes the turn.
func (e *ear) tell(what func(t *turn, now clock.Instant)) {
	q := e.queue
	q.core.queues.mu.Lock()
	defer q.core.queues.mu.Unlock()
	if q.first == nil {
		return
	}
	before := q.turn.next
	what(&q.turn, q.core.clock.Now())
	if q.turn.next != before {
		q.armLocked()
	}
}
