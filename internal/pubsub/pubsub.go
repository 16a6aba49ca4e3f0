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
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
)

const (
	// Linger is how long the connection outlives the last subscriber: a caller that locks
	// repeatedly subscribes again soon.
	Linger = 200 * time.Millisecond

	minBackoff = 10 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

var errClosed = errors.New("closed")

// Subscriber receives the events of one channel. Its methods are called one at a time, and never
// after cancel has returned. They must not block, nor call Subscribe or cancel.
type Subscriber interface {
	// OnSubscribed is called when the server has confirmed the subscription, after each connection
	// anew. Messages published before may have been missed.
	OnSubscribed()
	// OnMessage is called for each message.
	OnMessage()
	// OnUnsubscribed is called when a confirmed subscription is lost. It is requested again.
	OnUnsubscribed()
}

// Subscriptions holds the subscriptions to channels of one server. It is safe for concurrent use.
//
// A silent server is pinged after one timeout. After two, its connection is closed.
type Subscriptions struct {
	pool    redisconn.Pool
	timeout time.Duration
	rng     *rand.Rand // for the run goroutine

	mu       sync.Mutex
	channels map[string]*channel
	refused  int // how many channels the server refused
	running  bool
	ended    chan struct{} // closed when the run goroutine has ended
	closing  bool
	endPause chan struct{} // closed to end a pause: there is no subscriber any more
	conn     *conn         // nil when there is none
}

// channel is a channel that has subscribers.
type channel struct {
	subscribers []Subscriber
	confirmed   bool
	refused     bool // by the server; requested again with the next ping
}

// New returns Subscriptions over connections of a pool. The timeout bounds every wait. The source
// seeds the jitter.
func New(pool redisconn.Pool, timeout time.Duration, source rand.Source) *Subscriptions {
	return &Subscriptions{pool: pool, timeout: timeout, rng: rand.New(source), channels: map[string]*channel{}}
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
		s.sendLocked("SUBSCRIBE", name)
	}
	c.subscribers = append(c.subscribers, to)
	if c.confirmed {
		to.OnSubscribed()
	}
	if !s.running && !s.closing {
		s.running, s.ended = true, make(chan struct{})
		go s.run(s.ended)
	}
	return sync.OnceFunc(func() { s.remove(name, c, to) })
}

func (s *Subscriptions) remove(name string, c *channel, subscriber Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(c.subscribers, subscriber)
	c.subscribers = slices.Delete(c.subscribers, i, i+1)
	if len(c.subscribers) > 0 {
		return
	}
	delete(s.channels, name)
	s.setRefusedLocked(c, false)
	s.sendLocked("UNSUBSCRIBE", name)
	if len(s.channels) == 0 {
		s.endPauseLocked()
		if s.conn != nil {
			s.conn.idleSince = time.Now()
			s.conn.pinger.Reset(s.silenceLocked())
		}
	}
}

func (s *Subscriptions) sendLocked(name, channel string) {
	if s.conn != nil {
		s.conn.sendLocked(name, channel)
	}
}

func (s *Subscriptions) setRefusedLocked(c *channel, refused bool) {
	if c.refused != refused {
		c.refused = refused
		if refused {
			s.refused++
		} else {
			s.refused--
		}
	}
}

// silenceLocked is how long a connection may be silent before it is pinged. Without subscribers the
// reply to the ping ends it: see [conn.isDoneLocked].
func (s *Subscriptions) silenceLocked() time.Duration {
	if len(s.channels) == 0 {
		return min(Linger, s.timeout)
	}
	return s.timeout
}

// Close ends the subscriptions. The channel that it returns is closed when no goroutine runs any
// more.
func (s *Subscriptions) Close() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.endPauseLocked()
	if s.conn != nil {
		s.conn.pingLocked() // the next reply ends the connection
	}
	if !s.running {
		none := make(chan struct{})
		close(none)
		return none
	}
	return s.ended
}

// run keeps a connection while there are subscribers.
func (s *Subscriptions) run(ended chan struct{}) {
	defer close(ended)
	backoff := minBackoff
	for s.keepRunning() {
		c, err := s.connect()
		if err == nil {
			if err = s.serve(c); err == nil {
				continue
			}
			// A server that accepts connections and closes them at once gets the growing backoff of
			// a dead one.
			if !c.confirmedSince.IsZero() && time.Since(c.confirmedSince) >= maxBackoff {
				backoff = minBackoff
			}
		}
		if s.pause(backoff/2 + time.Duration(s.rng.Int64N(int64(backoff)))) {
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// keepRunning returns false, and counts the run goroutine as ended, when there are no subscribers.
func (s *Subscriptions) keepRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = len(s.channels) > 0 && !s.closing
	return s.running
}

// pause waits. It returns false when there are no subscribers any more.
func (s *Subscriptions) pause(d time.Duration) bool {
	s.mu.Lock()
	if s.endPause == nil {
		s.endPause = make(chan struct{})
	}
	end := s.endPause
	if len(s.channels) == 0 || s.closing {
		s.endPauseLocked()
	}
	s.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-end:
		return false
	}
}

func (s *Subscriptions) endPauseLocked() {
	if s.endPause != nil {
		close(s.endPause)
		s.endPause = nil
	}
}

// forEachLocked calls fn for every channel in the order of names, so that a run can be replayed.
func (s *Subscriptions) forEachLocked(fn func(name string, c *channel)) {
	for _, name := range slices.Sorted(maps.Keys(s.channels)) {
		fn(name, s.channels[name])
	}
}
