// Package pubsub subscribes to the channels of one Redis server over one connection of a pool, which is made for the first
// subscriber and closed soon after the last has gone. Messages are hints: some may be missed, and one may come twice.
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
	// Linger is how long the connection is kept once nobody subscribes any more: callers that lock in turns come back soon.
	Linger = 200 * time.Millisecond

	minBackoff = 10 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

var errClosed = errors.New("closed")

// Subscriber is told of one channel. Its methods are called one at a time, and not after cancel has returned. They must not
// block, nor call Subscribe or cancel.
type Subscriber interface {
	// OnSubscribed is called when the subscription stands, and again when it stands anew: what was published before may have been
	// missed.
	OnSubscribed()
	// OnMessage is called for each message.
	OnMessage()
	// OnUnsubscribed is called when the subscription stands no more. It is tried again.
	OnUnsubscribed()
}

// Subscriptions is what is subscribed to on one server. It is safe for concurrent use.
//
// A connection dies when the server is silent for two timeouts. It is pinged after the first.
type Subscriptions struct {
	pool    redisconn.Pool
	timeout time.Duration
	rng     *rand.Rand // for the run goroutine

	mu       sync.Mutex
	channels map[string]*channel
	refused  int // of channels, by the server
	running  bool
	ended    chan struct{} // closed when the run goroutine has ended
	closing  bool
	unwanted chan struct{} // closed when a pause is to end: nobody subscribes any more
	conn     *conn         // nil when there is none
}

// channel is one that somebody subscribes to.
type channel struct {
	subscribers []Subscriber
	stands      bool
	refused     bool // by the server, which is asked again with the next ping
}

// New returns Subscriptions over connections of a pool. Every wait is bounded by the timeout. The source is for the jitter.
func New(pool redisconn.Pool, timeout time.Duration, source rand.Source) *Subscriptions {
	return &Subscriptions{pool: pool, timeout: timeout, rng: rand.New(source), channels: map[string]*channel{}}
}

// Subscribe subscribes to a channel until cancel is called.
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
	if c.stands {
		to.OnSubscribed()
	}
	if !s.running && !s.closing {
		s.running, s.ended = true, make(chan struct{})
		go s.run(s.ended)
	}
	return sync.OnceFunc(func() { s.remove(name, c, to) })
}

func (s *Subscriptions) remove(name string, c *channel, gone Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(c.subscribers, gone)
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

// silenceLocked is how long a connection may be silent before it is pinged. The last ping finds that nobody has subscribed for a
// while.
func (s *Subscriptions) silenceLocked() time.Duration {
	if len(s.channels) == 0 {
		return min(Linger, s.timeout)
	}
	return s.timeout
}

// Close ends the subscriptions. The channel that it returns is closed when nothing runs any more.
func (s *Subscriptions) Close() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.endPauseLocked()
	if s.conn != nil {
		s.conn.pingLocked() // whatever comes ends it
	}
	if !s.running {
		none := make(chan struct{})
		close(none)
		return none
	}
	return s.ended
}

// run keeps a connection while somebody subscribes.
func (s *Subscriptions) run(ended chan struct{}) {
	defer close(ended)
	backoff := minBackoff
	for s.goOn() {
		c, err := s.connect()
		if err == nil {
			if err = s.serve(c); err == nil {
				continue
			}
			// A server that lets everybody in and then throws them out is as good as dead.
			if !c.stoodSince.IsZero() && time.Since(c.stoodSince) >= maxBackoff {
				backoff = minBackoff
			}
		}
		if s.pause(backoff/2 + time.Duration(s.rng.Int64N(int64(backoff)))) {
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// goOn tells whether somebody subscribes. If not, the goroutine has to end.
func (s *Subscriptions) goOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = len(s.channels) > 0 && !s.closing
	return s.running
}

// pause returns false when nobody subscribes any more.
func (s *Subscriptions) pause(d time.Duration) bool {
	s.mu.Lock()
	if s.unwanted == nil {
		s.unwanted = make(chan struct{})
	}
	unwanted := s.unwanted
	if len(s.channels) == 0 || s.closing {
		s.endPauseLocked()
	}
	s.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-unwanted:
		return false
	}
}

func (s *Subscriptions) endPauseLocked() {
	if s.unwanted != nil {
		close(s.unwanted)
		s.unwanted = nil
	}
}

// forEachLocked calls fn for every channel, in the order of the names, so that a run can be replayed.
func (s *Subscriptions) forEachLocked(fn func(name string, c *channel)) {
	for _, name := range slices.Sorted(maps.Keys(s.channels)) {
		fn(name, s.channels[name])
	}
}
