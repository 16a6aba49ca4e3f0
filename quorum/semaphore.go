package quorum

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/internal/lockers"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/slots"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// Semaphore has a number of slots, and each slot has one holder at a time. It is safe for concurrent
// use. [Locker.Semaphore] returns one.
type Semaphore struct {
	embedded
	locker *Locker
	name   string
	size   int

	askOnce sync.Once
	ask     engine.SlotsQuestion
}

// Semaphore returns the semaphore of that name with n slots, from 1 to 1,024. It asks no node. If n or the name is
// not valid, the calls of the Semaphore return [ErrInvalid].
//
// Each slot is a lock of its own, with its own lease, renewal and fencing tokens. The slots have at most n holders if
// all clients say the same n. If clients say different numbers, they share the slots, and the largest number is the
// bound. A lock of the same name is independent of the semaphore.
func (l *Locker) Semaphore(name string, n int) *Semaphore {
	s := &Semaphore{locker: l, name: strings.Clone(name), size: n}
	s.embedded = lockers.Embed(&insideSemaphore{insideLocker{l}, s})
	return s
}

// Acquire waits until it holds a slot, or ctx ends, or the bound of [WithWait] is reached. It is [Locker.Lock] with
// the slot as the lock: ctx is the parent of the lock's context, and the errors are Lock's. [Lock.Slots] has the
// slot's number, which nobody else has while the lock is held.
//
// A call with the context of a held slot takes another slot: there is no re-entry. Calls of one process take slots in
// their order. Between processes the order is roughly the order in which they began to wait.
//
// Acquire(ctx, k) takes k slots, all or none, as one lock with one token. k is at most 64 and at most the number of
// slots; more than one k is [ErrInvalid]. No slot is reserved while the call waits for k free ones at once, so calls
// that want fewer slots may overtake it.
func (s *Semaphore) Acquire(ctx context.Context, k ...int) (*Lock, error) {
	if s.locker.set.wait == 0 {
		return s.TryAcquire(ctx, k...)
	}
	want, err := s.check(ctx, k)
	if err != nil {
		return nil, err
	}
	return s.locker.wait(ctx, s.wanted(want, 1))
}

// TryAcquire is [Semaphore.Acquire] without waiting for a release, as [Locker.TryLock] is Lock: it returns [ErrHeld] if
// too many slots are held.
func (s *Semaphore) TryAcquire(ctx context.Context, k ...int) (*Lock, error) {
	want, err := s.check(ctx, k)
	if err != nil {
		return nil, err
	}
	// Among nodes that block, at least one knows that a slot is free once a quorum has released it.
	return s.locker.try(ctx, s.wanted(want, s.locker.core.Quorum.Blocking()))
}

// Do runs fn with a slot, as [Locker.Do] runs it with a lock.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) error {
	lock, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return lock.do(ctx, fn)
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.name }

// Size returns the number of slots.
func (s *Semaphore) Size() int { return s.size }

// String returns the name and the number of slots.
func (s *Semaphore) String() string { return fmt.Sprintf("semaphore %.64q of %d", s.name, s.size) }

// question returns which slots are free, as a question.
func (s *Semaphore) question() engine.SlotsQuestion {
	s.askOnce.Do(func() { s.ask = engine.SlotsQuestion{Name: s.name, Call: scripts.Slots(s.name, s.size)} })
	return s.ask
}

// check returns how many slots a call wants, or why it is refused.
func (s *Semaphore) check(ctx context.Context, k []int) (want int, err error) {
	if err := s.usable("lock"); err != nil {
		return 0, err
	}
	switch len(k) {
	case 0:
		want = 1
	case 1:
		want = k[0]
	default:
		return 0, invalidf("lock", []string{s.name}, "%d numbers of slots in place of one", len(k))
	}
	if want < 1 || want > min(s.size, scripts.MaxNames) {
		return 0, invalidf("lock", []string{s.name}, "%d slots are not between 1 and %d", want, min(s.size, scripts.MaxNames))
	}
	return want, endedError(ctx, "lock", []string{s.name})
}

// usable returns why the semaphore cannot be used, or nil.
func (s *Semaphore) usable(op string) error {
	names := []string{s.name}
	if err := s.locker.refuse(op, names); err != nil {
		return err
	}
	if s.size < 1 || s.size > scripts.MaxSlots {
		return invalidf(op, names, "%d slots are not between 1 and %d", s.size, scripts.MaxSlots)
	}
	return nil
}

// slotsCall is a call that wants slots of a semaphore.
type slotsCall struct {
	sem         *Semaphore
	want, agree int  // see slots.NewTurn
	asks        int  // the node that is asked next which slots are free
	asked       int  // the node whose hint is the last one
	more        bool // another slot may be free, besides those that the call has acquired
}

func (s *Semaphore) wanted(k, agree int) wanted {
	call := &slotsCall{sem: s, want: k, agree: agree, asks: s.locker.core.random(len(s.locker.core.Nodes))}
	return wanted{names: []string{s.name}, slots: call, key: queue.NewSlotsKey(scripts.SlotsName(s.name), s.size)}
}

// attempt makes a turn of attempts (package slots). It returns a lock, or the result of the last
// attempt, or a result of its own if too few slots are free. The attempts of a waiter that has heard no
// release probe: the hint may be wrong.
func (s *slotsCall) attempt(ctx context.Context, set *settings, due queue.Turn, tries *waiting.Tries) (*Lock, attemptResult) {
	c, names, approach := s.sem.locker.core, []string{s.sem.name}, due.Approach
	turn := slots.NewTurn(s.sem.size, s.want, s.agree, c.random)
	if approach == waiting.Alone {
		turn.Guess(c.history.TakeSlot(slotsHash(s.sem.name)))
	}
	how := approach
	if due.Published >= 0 {
		s.asks = due.Published
	} else if approach == waiting.AskAll && tries == nil { // of tries it is to find out who holds
		how = waiting.ProbeFirst
	}
	var last attemptResult
	var hint scripts.SlotsReply
	held := true // each attempt was refused by a holder
	for {
		switch step, chosen := turn.Next(); step {
		case slots.Try:
			// Not the node of the hint: if that one is alone in having the slot free, because it
			// missed the grant, the attempt would get its vote, give it back, and so wake others.
			probe := (s.asked + 1) % len(c.Nodes)
			lock, r := c.attempt(ctx, set, target{names: names, slots: chosen, probe: probe}, how)
			if lock != nil {
				s.more = turn.MayHaveFree()
				return lock, r
			}
			if !r.Held || r.IsCut() {
				return nil, r
			}
			last = r
			turn.Refused()
			held = tries != nil && c.isHeld(tries, r) && held
		case slots.Ask:
			found, node, answered := c.AskSlots(ctx, s.sem.question(), s.asks)
			s.asks = (s.asks + 1) % len(c.Nodes)
			switch {
			case answered:
				hint, s.asked = found, node
				turn.Hinted(hint.Free)
			case last.err != nil:
				last.mayTry = tries != nil
				return nil, last
			default: // an attempt finds out why no node answers
				turn.Guess(-1)
			}
		case slots.Full:
			r := s.full(hint, approach)
			r.mayTry = tries != nil && !tries.Full(c.Moment(), s.sem.size)
			return nil, r
		case slots.Over:
			if last.Listeners = max(last.Listeners, hint.Waiting); len(hint.Free) > 0 && turn.MayHaveFree() {
				last.Wait = 0
			}
			last.mayTry = tries != nil && !tries.Over(held, s.sem.size)
			return nil, last
		}
	}
}

// full is the result of a turn that finds too few free slots.
func (s *slotsCall) full(hint scripts.SlotsReply, approach waiting.Approach) attemptResult {
	why := fmt.Sprintf("all %d slots are taken", s.sem.size)
	if s.want > 1 {
		why = fmt.Sprintf("%d of %d slots are free, and %d are wanted", len(hint.Free), s.sem.size, s.want)
	}
	err := &Error{Op: "lock", Names: []string{s.sem.name}, Remaining: hint.Wait,
		causes: []error{ErrNotAcquired, ErrHeld, detail(why)}}
	s.sem.locker.core.counters.attempts[outcomeHeld].Add(1)
	return attemptResult{
		Outcome: &engine.Outcome{Approach: approach, Verdict: lease.OutOfReach}, err: err,
		Result: waiting.Result{Held: true, Wait: hint.Wait, Listeners: hint.Waiting},
	}
}
