package engine

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/scripts"
)

// SlotsQuestion asks which slots of a semaphore are free.
type SlotsQuestion struct {
	Name string // of the semaphore
	Call scripts.Call
}

// AskSlots asks the first node, and then the next one if a node is down or has not answered in two steps. answered is
// false if no node has answered, too few are up, or ctx or the Engine has ended.
func (e *Engine) AskSlots(ctx context.Context, q SlotsQuestion, first int) (hint scripts.SlotsReply, node int, answered bool) {
	if e.tooFewUp(q.Name) {
		return hint, 0, false
	}
	next, left := first, len(e.Nodes)
	answers, late := make(chan hintAnswer, left), make(chan struct{}, 1)
	timer := e.Clock.AfterFunc(time.Hour, func() {
		select {
		case late <- struct{}{}:
		default: // the timer was set again before its first signal was read
		}
	})
	defer timer.Stop()
	open := 0
	for {
		for asked := false; left > 0 && !asked; left-- {
			pipe := e.pipe(next, q.Name)
			if asked = pipe.Start(q.Call, nil, hintOf{next, answers}) == nil; asked {
				open++
				timer.Reset(2 * e.RTT.Step(e.Quorum))
			}
			next = (next + 1) % len(e.Nodes)
		}
		if open == 0 {
			return hint, 0, false
		}
		select {
		case r := <-answers:
			if open--; r.Err == nil {
				return *r.Reply.Slots, r.node, true
			}
		case <-late:
		case <-ctx.Done():
			return hint, 0, false
		case <-e.Closed:
			return hint, 0, false
		}
	}
}

// tooFewUp reports whether too many nodes are down for any attempt to succeed.
func (e *Engine) tooFewUp(name string) bool {
	var down quorate.Set
	for i := range e.Nodes {
		if e.pipe(i, name).Down() != nil {
			down |= quorate.Of(i)
		}
	}
	return e.Quorum.Blocks(down)
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
