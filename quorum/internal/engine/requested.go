package engine

import (
	"sync"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// Requested returns a channel that is closed once a waiter asks the holder to let go. The first call subscribes on
// all nodes, until the hold ends.
func (h *Hold) Requested() <-chan struct{} {
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
func (h *Hold) listenLocked() *listener {
	if h.listener != nil {
		return h.listener
	}
	h.listener = &listener{owner: h.owner, asked: make(chan struct{})}
	if h.lease.Phase() != lease.Held {
		return h.listener
	}
	for _, n := range h.engine.Nodes {
		for _, name := range h.names {
			cancel := inside.Of(n).Subscriptions.Subscribe(scripts.AskChannel(name.String()), h.listener)
			h.listener.cancels = append(h.listener.cancels, cancel)
		}
	}
	return h.listener
}

// unlistenLocked ends the subscriptions, if there are any.
func (h *Hold) unlistenLocked() {
	if h.listener == nil {
		return
	}
	for _, cancel := range h.listener.cancels {
		cancel()
	}
	h.listener.cancels = nil
}

// NoteAsked tells the holder that a waiter behind it in its own process's queue asks it to let go.
func (h *Hold) NoteAsked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener == nil { // it needs no subscription
		h.listener = &listener{owner: h.owner, asked: make(chan struct{})}
	}
	h.listener.noteAsked()
}
