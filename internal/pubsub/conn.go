package pubsub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// conn is one connection for messages, with a goroutine that writes and one that reads. What changes is under Subscriptions.mu.
type conn struct {
	raw        redis.Conn // not embedded: that would hide its timeouts from redisconn
	changed    sync.Cond
	unsent     []command
	unanswered []command      // sent
	pending    map[string]int // by channel: SUBSCRIBE commands that are unsent or unanswered
	pinging    bool           // a ping is due
	pinger     *time.Timer    // makes it so
	idleSince  time.Time      // nobody subscribes
	stoodSince time.Time      // a subscription does, or did
	over       bool           // the writer is to end
	writerDone chan struct{}
}

// command is a change of subscriptions, or a ping, which has no channel.
type command struct{ name, channel string }

var ping = command{name: "PING"}

func (c *conn) sendLocked(name, channel string) {
	c.unsent = append(c.unsent, command{name, channel})
	if name == "SUBSCRIBE" {
		c.pending[channel]++
	}
	c.changed.Signal()
}

func (c *conn) pingLocked() {
	c.pinging = true
	c.changed.Signal()
}

func (s *Subscriptions) connect() (*conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	raw, err := redisconn.Get(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, pending: map[string]int{}, pinging: true, writerDone: make(chan struct{})}
	c.changed.L = &s.mu
	c.pinger = time.AfterFunc(s.timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.pingLocked()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		c.pinger.Stop()
		raw.Close()
		return nil, errClosed
	}
	s.conn = c
	s.forEachLocked(func(name string, _ *channel) { c.sendLocked("SUBSCRIBE", name) })
	if len(c.unsent) == 0 {
		c.idleSince = time.Now()
	}
	return c, nil
}

// serve reads the connection until it dies, or until nobody has subscribed for a while: then the error is nil.
func (s *Subscriptions) serve(c *conn) error {
	go s.write(c)
	err := s.read(c)
	s.mu.Lock()
	s.conn, c.over = nil, true
	c.changed.Signal()
	s.forEachLocked(func(_ string, ch *channel) {
		s.setRefusedLocked(ch, false)
		if !ch.stands {
			return
		}
		ch.stands = false
		for _, subscriber := range ch.subscribers {
			subscriber.OnUnsubscribed()
		}
	})
	s.mu.Unlock()
	c.pinger.Stop()
	redisconn.Kill(c.raw)
	<-c.writerDone
	c.raw.Close()
	return err
}

// write sends changes and pings. A broken connection is the reader's to report.
func (s *Subscriptions) write(c *conn) {
	defer close(c.writerDone)
	for {
		batch, ok := s.takeUnsent(c)
		if !ok {
			return
		}
		for _, cmd := range batch {
			args := []any{cmd.channel}
			if cmd == ping {
				args = nil
			}
			if c.raw.Send(cmd.name, args...) != nil {
				return
			}
		}
		if c.raw.Flush() != nil {
			return
		}
	}
}

// takeUnsent waits for something to send. It returns false when the connection is over.
func (s *Subscriptions) takeUnsent(c *conn) (batch []command, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(c.unsent) == 0 && !c.pinging && !c.over {
		c.changed.Wait()
	}
	if c.over {
		return nil, false
	}
	if c.pinging {
		s.askAgainLocked(c)
		c.unsent = append(c.unsent, ping)
		c.pinger.Reset(s.silenceLocked())
	}
	batch, c.unsent, c.pinging = c.unsent, nil, false
	c.unanswered = append(c.unanswered, batch...)
	return batch, true
}

// askAgainLocked subscribes again where the server refused.
func (s *Subscriptions) askAgainLocked(c *conn) {
	if s.refused == 0 {
		return
	}
	s.forEachLocked(func(name string, ch *channel) {
		if ch.refused {
			s.setRefusedLocked(ch, false)
			c.sendLocked("SUBSCRIBE", name)
		}
	})
}

func (s *Subscriptions) read(c *conn) error {
	for {
		reply, err := redisconn.Receive(c.raw, 2*s.timeout)
		var kind, name string
		switch {
		case err == nil:
			kind, name, err = parse(reply)
		case c.raw.Err() == nil && redisconn.IsServerError(err):
			kind, err = refusal, nil
		}
		if err != nil {
			return err
		}
		if over, err := s.handle(c, kind, name); over || err != nil {
			return err
		}
	}
}

// handle tells the subscribers of a reply, and returns whether the connection has done its work.
func (s *Subscriptions) handle(c *conn, kind, name string) (over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return true, nil
	}
	if kind == "message" {
		if ch := s.channels[name]; ch != nil {
			for _, subscriber := range ch.subscribers {
				subscriber.OnMessage()
			}
		}
		return false, nil
	}
	if len(c.unanswered) == 0 {
		return false, errMessage
	}
	sent := c.unanswered[0]
	c.unanswered = c.unanswered[1:]
	if kind != refusal && (kind != answerTo[sent.name] || name != sent.channel && sent != ping) {
		return false, fmt.Errorf("%w: %s of %.40q after %s", errMessage, kind, name, sent.name)
	}
	if sent.name == "SUBSCRIBE" {
		s.subscribedLocked(c, sent.channel, kind != refusal)
	}
	done := len(s.channels) == 0 && len(c.unanswered) == 0 && len(c.unsent) == 0
	return done && time.Since(c.idleSince) >= Linger, nil
}

// subscribedLocked takes the answer to one SUBSCRIBE. A channel that was left and subscribed to again stands with the last one.
func (s *Subscriptions) subscribedLocked(c *conn, name string, stands bool) {
	if c.pending[name]--; c.pending[name] > 0 {
		return
	}
	delete(c.pending, name)
	ch := s.channels[name]
	if ch == nil || ch.stands {
		return
	}
	ch.stands = stands
	s.setRefusedLocked(ch, !stands)
	if !stands {
		return
	}
	if c.stoodSince.IsZero() {
		c.stoodSince = time.Now()
	}
	for _, subscriber := range ch.subscribers {
		subscriber.OnSubscribed()
	}
}
