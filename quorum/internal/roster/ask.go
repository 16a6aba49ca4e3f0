package roster

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// question is what waits for a survey.
type question struct {
	node int // that must answer; everyNode for all
	done func(*Survey)
}

const everyNode = -1

// Survey has a survey ask all nodes: it takes a node's timeout at most, for each request that
// follows. The channel receives its result.
func (r *Roster) Survey() <-chan *Survey {
	done := make(chan *Survey, 1)
	r.ask(question{everyNode, func(s *Survey) { done <- s }})
	return done
}

// Recheck has a survey ask about one node, and mark it if that is allowed. done is called in another goroutine: with
// the wait of a claimed node, with 0 and nil if the node accepts this locker now, or else with a *node.Error.
func (r *Roster) Recheck(i int, done func(wait time.Duration, err error)) {
	r.ask(question{i, func(s *Survey) {
		if wait := s.claimWaits(i); wait > 0 {
			done(wait, nil)
			return
		}
		err := NodeError(r.nodes[i], "acquire", s.Refusal(i))
		if err != nil {
			r.noteRefused(i)
		}
		done(0, err)
	}})
}

// Refusal returns why a node does not accept this locker, as a *node.Error. It returns nil if only a
// survey can find out: an unmarked node may be marked, and a node that says it is another member may
// be the same process as that one.
func (r *Roster) Refusal(i int, seen *scripts.Seen) error {
	view, list := membership.ReadRefusal(*seen), r.List()
	if view.Relation(list) != membership.Refuses || view.IsAnotherMember(list) {
		return nil
	}
	r.noteRefused(i)
	return NodeError(r.nodes[i], "acquire", view.Refusal(list))
}

// RenewalRefused returns why a node does not renew this locker's locks, as a *node.Error. An
// unmarked one is marked, if this locker may, so that the next renewal succeeds.
func (r *Roster) RenewalRefused(i int, seen *scripts.Seen) error {
	if err := r.Refusal(i, seen); err != nil {
		return err
	}
	r.Recheck(i, func(time.Duration, error) {})
	return NodeError(r.nodes[i], "renew", errForgotList)
}

// ask has a survey answer the question, in a goroutine. Questions that come while one runs share the
// next one.
func (r *Roster) ask(q question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, q)
	if !r.running {
		r.running = true
		r.opts.Go(r.run)
	}
}

func (r *Roster) run() {
	for {
		r.mu.Lock()
		asked := r.asked
		r.asked, r.running = nil, len(asked) > 0
		r.mu.Unlock()
		if len(asked) == 0 {
			return
		}
		s := r.survey(asked)
		r.noteRefusals(s)
		for _, q := range asked {
			q.done(s)
		}
	}
}

// noteRefusals records which nodes do not accept this locker, and has the nodes log those whose
// clients have another list of masters.
func (r *Roster) noteRefusals(s *Survey) {
	for i, view := range s.views {
		if view == nil || s.list == nil || s.claimWaits(i) > 0 || s.Refusal(i) == nil {
			continue
		}
		r.noteRefused(i)
		inside.Of(r.nodes[i]).Log.NotAccepted(s.list, view.Seen)
	}
}
