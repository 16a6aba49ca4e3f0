// Package pubsub subscribes to channels of one Redis server, over one connection of a pool. The
// connection is made for the first subscriber and closed soon after the last one cancels.
//
// A channel that has subscribers is, for each connection:
//
//	            SUBSCRIBE answered
//	requested ─────────────────────▶ confirmed ──▶ OnSubscribed, then OnMessage for each message
//	    ▲  │ the server refuses          │
//	    │  ▼                             │ the connection dies
//	    │ refused: requested again       ▼
//	    │ with the next ping          OnUnsubscribed
//	    └────────────────────────────────┘ requested on the next connection, after a backoff
//
// Messages are hints: a message may be missed, or arrive twice.
package pubsub

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// settled is for how long a subscription must last before the next failure has the shortest backoff.
const settled = 250 * time.Millisecond

// New returns Subscriptions over connections that take returns, with the process to which they lead. The timeout bounds
// every wait. The source is for the jitter. The group runs the goroutine.
func New(take Take, timeout time.Duration, source rand.Source, group *sync.WaitGroup) *Subscriptions {
	s := &Subscriptions{
		take: take, timeout: timeout, rng: rand.New(source), group: group, channels: map[string]*channel{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.changed.L = &s.mu
	return s
}

// Subscribe subscribes to a channel until cancel is called. Cancel is idempotent. After Close,
// Subscribe does nothing.
func (s *Subscriptions) Subscribe(name string, to Subscriber) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[name]
	if c == nil {
		c = new(channel)
		s.channels[name] = c
		s.sendLocked(command{"SUBSCRIBE", name, c})
	}
	sub := &subscription{to, len(c.subscriptions)}
	c.subscriptions = append(c.subscriptions, sub)
	if c.confirmed {
		to.OnSubscribed()
	}
	if !s.running && s.ctx.Err() == nil {
		s.running = true
		s.group.Go(s.run)
	}
	return sync.OnceFunc(func() { s.remove(name, c, sub) })
}

func (s *Subscriptions) remove(name string, c *channel, sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.remove(sub); len(c.subscriptions) > 0 {
		return
	}
	delete(s.channels, name)
	s.sendLocked(command{"UNSUBSCRIBE", name, c})
	if len(s.channels) == 0 {
		s.changed.Signal()
		if s.conn != nil {
			s.conn.idleSince = time.Now()
			s.conn.pinger.Reset(s.silenceLocked())
		}
	}
}

// Leave ends the connection, or the one that is being made, unless it leads to that process: the server's address leads
// there now.
func (s *Subscriptions) Leave(unless string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = unless
	s.leaveLocked()
}

func (s *Subscriptions) leaveLocked() {
	if s.conn != nil && s.conn.process != s.process {
		s.conn.moved = true
		s.conn.pingLocked() // the next reply ends the connection
	}
}

// Close ends the subscriptions. After it, the group gets no goroutine.
func (s *Subscriptions) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.changed.Signal()
	if s.conn != nil {
		s.conn.pingLocked() // the next reply ends the connection
	}
}

// run keeps a connection while there are subscribers.
func (s *Subscriptions) run() {
	var backoff redisconn.Backoff
	for s.keepRunning() {
		c, err := s.connect()
		if err == nil {
			if err = s.serve(c); err == nil {
				continue
			}
			// A server that accepts connections and closes them at once gets the growing backoff of
			// a dead one.
			if !c.confirmedSince.IsZero() && time.Since(c.confirmedSince) >= settled {
				backoff.Reset()
			}
		}
		s.pause(backoff.Next(err, s.rng))
	}
}

// keepRunning returns false, and counts the run goroutine as ended, when there are no subscribers.
func (s *Subscriptions) keepRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = len(s.channels) > 0 && s.ctx.Err() == nil
	return s.running
}

// pause waits, as long as there are subscribers.
func (s *Subscriptions) pause(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := false
	timer := time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		over = true
		s.changed.Signal()
	})
	defer timer.Stop()
	for !over && len(s.channels) > 0 && s.ctx.Err() == nil {
		s.changed.Wait()
	}
}
