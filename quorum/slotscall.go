package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
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
	more        bool // another slot may be free beside those that the call has acquired
}

func (s *Semaphore) wanted(k, agree int) wanted {
	call := &slotsCall{sem: s, want: k, agree: agree, asks: s.locker.core.random(len(s.locker.core.Nodes))}
	return wanted{names: []string{s.name}, slots: call}
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
			if !r.Held || r.cut {
				return nil, r
			}
			last = r
			turn.Refused()
		case slots.Ask:
			found, answered := s.ask(ctx)
			switch {
			case answered:
				hint = found
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
		Result: waiting.Result{Held: true, Wait: hint.Wait, Listeners: hint.Waiting}, err: err, approach: approach,
	}
}

// ask asks a node which slots are free, and the next node if the first has not answered in two steps,
// or cannot. It begins with another node each time. answered is false if no node has answered or too few
// are up, or the call or the Locker has ended.
func (s *slotsCall) ask(ctx context.Context) (hint scripts.SlotsReply, answered bool) {
	c := s.sem.locker.core
	if s.tooFewUp() {
		return hint, false
	}
	s.sem.readOnce.Do(func() { s.sem.read = scripts.Slots(s.sem.name, s.sem.size) })
	next, left := s.asks, len(c.Nodes)
	s.asks = (s.asks + 1) % len(c.Nodes)
	answers, late := make(chan hintAnswer, left), make(chan struct{}, 1)
	timer := c.Clock.AfterFunc(time.Hour, func() {
		select {
		case late <- struct{}{}:
		default: // the timer was set again before its first signal was read
		}
	})
	defer timer.Stop()
	open := 0
	for {
		for asked := false; left > 0 && !asked; left-- {
			if asked = s.askNode(next, answers); asked {
				open++
				timer.Reset(2 * c.RTT.Step(c.Need))
			}
			next = (next + 1) % len(c.Nodes)
		}
		if open == 0 {
			return hint, false
		}
		select {
		case r := <-answers:
			if open--; r.Err == nil {
				s.asked = r.node
				return *r.Reply.Slots, true
			}
		case <-late:
		case <-ctx.Done():
			return hint, false
		case <-c.Closed:
			return hint, false
		}
	}
}

// tooFewUp reports whether so many nodes are down that no attempt can succeed, whatever a hint says.
func (s *slotsCall) tooFewUp() bool {
	c, up := s.sem.locker.core, 0
	for _, n := range c.Nodes {
		if inside.Of(n).Pipe(s.sem.name).Down() == nil {
			up++
		}
	}
	return up < c.Need
}

// askNode asks a node, if it takes the request.
func (s *slotsCall) askNode(node int, answers chan<- hintAnswer) (asked bool) {
	pipe := inside.Of(s.sem.locker.core.Nodes[node]).Pipe(s.sem.name)
	return pipe.Down() == nil && pipe.Start(s.sem.read, nil, hintOf{node, answers}) == nil
}

// hintOf receives the reply of a node that was asked.
type hintOf struct {
	node    int
	answers chan<- hintAnswer
}

type hintAnswer struct {
	pipeline.Result
	node int
}

func (h hintOf) Done(r pipeline.Result) { h.answers <- hintAnswer{r, h.node} }
