package semaphore

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// askNodes asks the first node which slots are free, and then the next one if a node is down or has not answered
// within two steps. answered is false if no node has answered, too few are up, or ctx or the Locker has ended.
func (s *Semaphore) askNodes(ctx context.Context, first int) (hint semaphores.Hint, node int, answered bool) {
	e := s.engine()
	var down quorate.Set
	for i := range e.Nodes {
		if s.pipe(i).Down() != nil {
			down |= quorate.Of(i)
		}
	}
	if e.Quorum.Blocks(down) {
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
			if asked = s.pipe(next).Start(s.question(), nil, hintFrom(next, answers)) == nil; asked {
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
				return r.Reply.Other.(semaphores.Hint), r.node, true
			}
		case <-late:
		case <-ctx.Done():
			return hint, 0, false
		case <-e.Lifetime.Done():
			return hint, 0, false
		}
	}
}

// pipe returns the pipeline to a node that carries the questions.
func (s *Semaphore) pipe(node int) *pipeline.Pipe {
	return inside.Of(s.engine().Nodes[node]).Pipe(s.Name())
}

// hintFrom returns the receiver of the reply of a node that is asked.
func hintFrom(node int, answers chan<- hintAnswer) pipeline.Receiver {
	return pipeline.ReceiverFunc(func(r pipeline.Result) { answers <- hintAnswer{r, node} })
}

type hintAnswer struct {
	pipeline.Result
	node int
}
