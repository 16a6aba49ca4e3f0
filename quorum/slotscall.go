package quorum

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/slots"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// slotsCall is a call that wants slots of a semaphore.
type slotsCall struct {
	sem         *Semaphore
	want, agree int  // see slots.NewTurn
	asks        int  // the node that is asked next which slots are free
	asked       int  // the node whose hint is the last one
	more        bool // another slot may be free, apart from those the call has acquired
}

func (s *Semaphore) wanted(k, agree int) wanted {
	call := &slotsCall{sem: s, want: k, agree: agree, asks: s.locker.core.random(len(s.locker.core.Nodes))}
	return wanted{names: []string{s.name}, slots: call, key: queue.NewSlotsKey(scripts.SlotsName(s.name), s.size)}
}

// attempt makes a turn of attempts (package slots). It returns a lock, or the result of the last
// attempt, or a result of its own if too few slots are free. The attempts of a waiter that has heard no
// release probe: the hint may be wrong.
func (s *slotsCall) attempt(
	ctx context.Context, set *settings, approach waiting.Approach, released bool,
) (*Lock, *attemptResult) {
	c, names := s.sem.locker.core, []string{s.sem.name}
	turn := slots.NewTurn(s.sem.size, s.want, s.agree, c.random)
	if approach == waiting.Alone {
		turn.Guess(c.history.TakeSlot(s.sem.hash()))
	}
	how := approach
	if !released && approach == waiting.AskAll {
		how = waiting.ProbeFirst
	}
	var last *attemptResult
	var hint scripts.SlotsReply
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
		case slots.Ask:
			found, node, answered := c.AskSlots(ctx, s.sem.question(), s.asks)
			s.asks = (s.asks + 1) % len(c.Nodes)
			switch {
			case answered:
				hint, s.asked = found, node
				turn.Hinted(hint.Free)
			case last != nil:
				return nil, last
			default: // an attempt finds out why no node answers
				turn.Guess(-1)
			}
		case slots.Full:
			return nil, s.full(hint, approach)
		case slots.Over:
			if last.Listeners = max(last.Listeners, hint.Waiting); len(hint.Free) > 0 && turn.MayHaveFree() {
				last.Wait = 0
			}
			return nil, last
		}
	}
}

// full is the result of a turn that finds too few free slots.
func (s *slotsCall) full(hint scripts.SlotsReply, approach waiting.Approach) *attemptResult {
	why := fmt.Sprintf("all %d slots are taken", s.sem.size)
	if s.want > 1 {
		why = fmt.Sprintf("%d of %d slots are free, and %d are wanted", len(hint.Free), s.sem.size, s.want)
	}
	err := &Error{Op: "lock", Names: []string{s.sem.name}, Remaining: hint.Wait,
		causes: []error{ErrNotAcquired, ErrHeld, detail(why)}}
	s.sem.locker.core.counters.attempts[outcomeHeld].Add(1)
	return &attemptResult{
		Outcome: &engine.Outcome{Approach: approach, Verdict: lease.OutOfReach}, err: err,
		Result: waiting.Result{Held: true, Wait: hint.Wait, Listeners: hint.Waiting},
	}
}
