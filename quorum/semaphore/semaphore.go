// Package semaphore lets at most n holders in at a time. Each has a numbered slot:
//
//	imports := semaphore.New(locker, "imports", 4) // the locker is redlock.Open's, for example
//	slot, err := imports.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer slot.Unlock(ctx)
//	return load(slot.Context())
package semaphore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lockers"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/slots"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// embedded lets package operator, and no other, reach the inside of a Semaphore.
type embedded = inside.Embedded[lockers.Inside[*quorum.Lock]]

// Semaphore has a number of slots, and each slot has one holder at a time. It is safe for concurrent use. Make it
// with [New].
type Semaphore struct {
	embedded
	inside   lockers.Inside[*quorum.Lock] // of the Locker
	name     string
	key      queue.Key
	channel  []scripts.Name // the name whose channel all slots use
	size     int
	question func() scripts.Call // which slots are free
}

// New returns the semaphore of that name with n slots, from 1 to 1,024. It asks no node. The name is valid as for
// [quorum.Locker.Lock]. If n or the name is not valid, the calls of the Semaphore return [quorum.ErrInvalid].
//
// Each slot is a lock of its own, with its own lease, renewal and fencing tokens, and the settings of the Locker. The
// slots have at most n holders if all clients say the same n. If clients say different numbers, they share the slots,
// and the largest number is the bound. A lock of the same name is independent of the semaphore.
func New(l *quorum.Locker, name string, n int) *Semaphore {
	name = strings.Clone(name)
	s := &Semaphore{inside: inside.Of(l), name: name, size: n, key: queue.NewSlotsKey(name, n),
		channel:  scripts.NewNames(nil, []string{scripts.SlotsName(name)}),
		question: sync.OnceValue(func() scripts.Call { return semaphores.Slots(name, n) })}
	s.embedded = inside.Embed[lockers.Inside[*quorum.Lock]](insideSemaphore{s.inside, s})
	return s
}

// insideSemaphore is what package operator needs of a Semaphore.
type insideSemaphore struct {
	lockers.Inside[*quorum.Lock]
	of *Semaphore
}

func (i insideSemaphore) Refuse(op string, _ []string) error { return i.of.usable(op) }

// Acquire waits until it holds a slot, or ctx ends, or the bound of [quorum.WithWait] is reached. It is
// [quorum.Locker.Lock] with the slot as the lock: ctx is the parent of the lock's context, and the errors are Lock's.
// [quorum.Lock.Slots] has the slot's number, which nobody else has while the lock is held.
//
// A call with the context of a held slot takes another slot: there is no re-entry. Calls of one process take slots in
// their order. Between processes the order is roughly the order in which they began to wait.
//
// Acquire(ctx, k) takes k slots, all or none, as one lock with one token. k is from 1 to the number of slots, and at
// most 64; another k, or more than one, is [quorum.ErrInvalid]. No slot is reserved while the call waits for k free
// ones at once, so calls that want fewer slots may overtake it.
func (s *Semaphore) Acquire(ctx context.Context, k ...int) (*quorum.Lock, error) {
	return s.acquire(ctx, k, true)
}

// TryAcquire is [Semaphore.Acquire] without waiting for a release, as [quorum.Locker.TryLock] is Lock: it returns
// [quorum.ErrHeld] if too many slots are held.
func (s *Semaphore) TryAcquire(ctx context.Context, k ...int) (*quorum.Lock, error) {
	return s.acquire(ctx, k, false)
}

func (s *Semaphore) acquire(ctx context.Context, k []int, waits bool) (*quorum.Lock, error) {
	if err := s.usable("lock"); err != nil {
		return nil, err
	}
	want, most := 1, min(s.size, scripts.MaxNames)
	switch {
	case len(k) == 1:
		want = k[0]
	case len(k) > 1:
		return nil, s.inside.Invalid("lock", s.names(), "%d numbers of slots in place of one", len(k))
	}
	if want < 1 || want > most {
		return nil, s.inside.Invalid("lock", s.names(), "%d slots are not between 1 and %d", want, most)
	}
	c := &call{Semaphore: s, want: want, toAsk: s.inside.Waiters().Random(len(s.engine().Nodes))}
	wants := queue.Wanted{Names: s.names(), Key: s.key, Keys: s.channel, Slots: want}
	return s.inside.Acquire(ctx, wants, c.turn, waits)
}

// Do runs fn with a slot, as [quorum.Locker.Do] runs it with a lock.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, slot *quorum.Lock) error) error {
	slot, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return s.inside.Do(ctx, slot, fn)
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.name }

// names returns the name in a slice of its own: errors show it to callers, who may change it.
func (s *Semaphore) names() []string { return []string{s.name} }

// Size returns the number of slots.
func (s *Semaphore) Size() int { return s.size }

// String returns the name and the number of slots.
func (s *Semaphore) String() string { return fmt.Sprintf("semaphore %.64q of %d", s.Name(), s.size) }

// usable returns why the semaphore cannot be used, or nil.
func (s *Semaphore) usable(op string) error {
	if err := s.inside.Refuse(op, s.names()); err != nil {
		return err
	}
	if s.size < 1 || s.size > scripts.MaxSlots {
		return s.inside.Invalid(op, s.names(), "%d slots are not between 1 and %d", s.size, scripts.MaxSlots)
	}
	return nil
}

func (s *Semaphore) engine() *engine.Engine { return s.inside.Waiters().Engine }

// call is one call that acquires.
type call struct {
	*Semaphore
	want     int
	toAsk    int         // the node that is asked next which slots are free
	hintFrom int         // the node that gave the last hint
	tries    slots.Tries // has met nobody, and ends the call, if it waits for a release
}

// turn makes a turn of attempts (package slots). It returns the result of the last attempt, or a result of its own
// if too few slots are free. The attempts of a waiter that has heard no release probe: the hint may be wrong.
func (c *call) turn(ctx context.Context, by queue.Attempts, due queue.Due) queue.Result {
	e, tries, agree := c.engine(), by.Tries(), 1
	c.tries.Begin()
	if tries != nil { // among nodes that block, at least one knows that a slot is free once a quorum has released it
		agree = e.Quorum.Blocking()
	}
	turn := slots.NewTurn(c.size, c.want, agree, c.inside.Waiters().Random)
	if due.Approach == waiting.Alone {
		turn.Guess(c.inside.Waiters().History.TakeSlot(c.key.Hash()))
	}
	how := due.Approach
	if due.Published >= 0 {
		c.toAsk = due.Published
	} else if how == waiting.AskAll && tries == nil { // of tries it is to find out who holds
		how = waiting.ProbeFirst
	}
	var last queue.Result
	var hint semaphores.Hint
	attempted, held := false, true // each attempt was refused by a holder
	for {
		switch step, chosen := turn.Next(); step {
		case slots.Try:
			// Not the node of the hint: if that one is alone in having the slot free, because it
			// missed the grant, the attempt would get its vote, give it back, and so wake others.
			first := (c.hintFrom + 1) % len(e.Nodes)
			last, attempted = by.Attempt(ctx, queue.AtSlots(c.name, chosen, first), how), true
			if last.More = turn.MayHaveFree(); last.Acquired || !last.Held || last.IsCut() {
				return last
			}
			turn.Refused()
			if tries != nil {
				holder := by.HeldBy(last)
				c.tries.Refused(holder)
				held = held && holder != ""
			}
		case slots.Ask:
			found, node, answered := c.askNodes(ctx, c.toAsk)
			c.toAsk = (c.toAsk + 1) % len(e.Nodes)
			switch {
			case answered:
				hint, c.hintFrom = found, node
				turn.Hinted(hint.Free)
			case attempted:
				last.MayTry = tries != nil
				return last
			default: // an attempt finds out why no node answers
				turn.Guess(-1)
			}
		case slots.Full:
			r := by.Full(c.shortOf(hint), waiting.Result{Held: true, Wait: hint.Wait, Listeners: hint.Waiting}, due.Approach)
			at := e.Moment()
			isLong := func(since clock.Instant) bool { return tries.IsLong(since, at) }
			r.MayTry = !c.tries.Full(at.Now, c.size, isLong)
			return r
		case slots.Over:
			if last.Listeners = max(last.Listeners, hint.Waiting); turn.MayHaveFree() {
				last.Wait = 0
			}
			last.MayTry = !c.tries.Over(held, c.size)
			return last
		}
	}
}

// shortOf says that too few slots are free.
func (c *call) shortOf(hint semaphores.Hint) string {
	switch {
	case c.want > 1:
		return fmt.Sprintf("%d of %d slots are free, and %d are wanted", len(hint.Free), c.size, c.want)
	case c.size == 1:
		return "the only slot is taken"
	}
	return fmt.Sprintf("all %d slots are taken", c.size)
}
