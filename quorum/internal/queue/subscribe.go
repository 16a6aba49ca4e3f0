package queue

import (
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// subscribe subscribes to the channels on all nodes, once for a queue. A waiter of the
// queue calls it, so the queue does not end meanwhile, unless the waiter is a reader and was let go.
func (p *Place) subscribe() {
	list, q := p.list, p.unsubscribed()
	if q == nil {
		return
	}
	cancels := make([]func(), 0, len(list.Engine.Nodes)*len(p.want.Keys))
	for i, n := range list.Engine.Nodes {
		for k, name := range p.want.Keys {
			s := &subscriber{queue: q, node: i, firstName: k == 0}
			in := inside.Of(n)
			cancels = append(cancels, in.Subscriptions.Subscribe(in.Prefix+name.Channel(), s))
		}
	}
	if q.keep(cancels) {
		return
	}
	for _, cancel := range cancels {
		cancel()
	}
}

// unsubscribed returns the call's queue, for which the call subscribes; nil if another one has, or it was let go.
func (p *Place) unsubscribed() *queue {
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	q := p.queue
	if q == nil || q.subscribed {
		return nil
	}
	q.subscribed = true
	return q
}

// keep stores the functions that cancel the subscriptions. It returns false if the queue has ended: the caller calls
// them.
func (q *queue) keep(cancels []func()) bool {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	q.cancels = cancels
	return !q.Empty()
}

// subscriber receives the events of one channel on one node ([pubsub.Subscriber]).
type subscriber struct {
	queue     *queue
	node      int
	firstName bool // it subscribes to the first name, which stands for the node
}

var _ pubsub.Subscriber = (*subscriber)(nil)

func (s *subscriber) OnSubscribed() {
	if s.firstName {
		s.dispatch(s.queue.Subscribed)
	}
}

func (s *subscriber) OnUnsubscribed() {
	if s.firstName {
		s.dispatch(s.queue.Unsubscribed)
	}
}

func (s *subscriber) OnMessage() {
	s.dispatch(func(node int, at waiting.Moment) {
		if s.queue.Message(node, at) {
			s.queue.published = node
		}
	})
}

// dispatch passes an event to package waiting, and resets the head's timer if that moved its next attempt.
func (s *subscriber) dispatch(event func(node int, at waiting.Moment)) {
	q := s.queue
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	_, before, _ := q.Next()
	event(s.node, q.list.momentLocked())
	if _, next, _ := q.Next(); next != before {
		q.armLocked(nil)
	}
}
