package quorum

import (
	"sync"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// Requested returns a channel that is closed once a waiter asks the holder to let go ([WithRequest]). It is
// a hint: nothing happens if the holder ignores it, and whoever may publish on the masters can send it. The
// channel is the same for all calls and all handles of a lock. The end of the lock does not close it, so
// wait for the end of [Lock.Context], too.
//
// The first call subscribes on all nodes, in the background, until the lock ends. A waiter that asked
// before asks again at its next attempt, a second later at most by the default of [WithRetry]. A request
// arrives if one node has both the waiter's message and the holder's subscription.
//
// All readers of a name are asked by a writer that waits for them, and all holders of a semaphore's slots by
// a waiter for slots. Unlock before the end of a min hold ends nothing on the nodes: waiters wait on.
func (l *Lock) Requested() <-chan struct{} {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listenLocked().asked
}

// listener hears requests to let go, from the first call of Requested to the end of the lock.
type listener struct {
	owner   scripts.Owner
	once    sync.Once
	asked   chan struct{} // closed when the owner is asked to let go
	cancels []func()      // of the subscriptions, under hold.mu
}

var _ pubsub.Subscriber = (*listener)(nil)

func (s *listener) OnSubscribed()   {}
func (s *listener) OnUnsubscribed() {}

func (s *listener) OnMessage(text string) {
	if s.owner.IsAsked(text) {
		s.noteAsked()
	}
}

func (s *listener) noteAsked() { s.once.Do(func() { close(s.asked) }) }

// listenLocked returns the listener. A lock that is held subscribes with the first call.
func (h *hold) listenLocked() *listener {
	if h.listener != nil {
		return h.listener
	}
	h.listener = &listener{owner: h.owner, asked: make(chan struct{})}
	if h.lease.Phase() != lease.Held {
		return h.listener
	}
	for _, n := range h.core.nodes {
		for _, name := range h.names {
			cancel := inside.Of(n).Subscriptions.Subscribe(scripts.AskChannel(name.String()), h.listener)
			h.listener.cancels = append(h.listener.cancels, cancel)
		}
	}
	return h.listener
}

// unlistenLocked ends the subscriptions, if there are any.
func (h *hold) unlistenLocked() {
	if h.listener == nil {
		return
	}
	for _, cancel := range h.listener.cancels {
		cancel()
	}
	h.listener.cancels = nil
}

// noteAsked tells the holder that a waiter behind it in its own process's queue asks it to let go.
func (h *hold) noteAsked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener == nil { // it needs no subscription
		h.listener = &listener{owner: h.owner, asked: make(chan struct{})}
	}
	h.listener.noteAsked()
}

// askToLetGo asks the holder that refused an attempt of the queue to let go, if a waiter of the queue wants
// that. A node that is down is left out: the next attempt asks again.
func (w *waiter) askToLetGo(what wanted, r *attemptResult) {
	if !r.Held || !w.queue.asks() {
		return
	}
	c := w.queue.list.core
	var call scripts.Call
	switch {
	case what.slots != nil, r.Readers: // an attempt doesn't learn who all of them are
		call = scripts.AskAll(what.channels(), c.lastOwnerMade())
	case r.err.Holder != "":
		call = scripts.Ask(what.channels(), r.err.Holder)
	default:
		return
	}
	for _, n := range c.nodes {
		inside.Of(n).Pipe(what.names[0]).Start(call, nil, nil)
	}
}

// asks reports whether a waiter of the queue wants to ask the holder to let go.
func (q *queue) asks() bool {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	return q.asking > 0
}
