package pubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

var (
	errClosed  = errors.New("closed")
	errMoved   = errors.New("the address leads to another process")
	errMessage = errors.New("not a reply to a subscriber")
)

func (s *Subscriptions) connect() (*conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, redisconn.ConnectTimeout(s.timeout))
	defer cancel()
	ctx, stop := redisconn.Interruptible(ctx)
	defer stop()
	var process string
	raw, err := redisconn.Get(ctx, func(ctx context.Context) (c redis.Conn, err error) {
		c, process, err = s.take(ctx)
		return c, err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		raw.Close()
		return nil, errClosed
	}
	c := &conn{raw: raw, process: process, changed: &s.changed, refused: map[string]bool{}, pingDue: true, idleSince: time.Now()}
	c.pinger = time.AfterFunc(s.timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.pingLocked()
	})
	s.conn = c
	s.leaveLocked() // the address may lead elsewhere since it was taken
	s.forEachLocked(func(name string, ch *channel) { c.sendLocked(command{"SUBSCRIBE", name, ch}) })
	return c, nil
}

// serve reads the connection until it dies, or until it is done: then the error is nil.
func (s *Subscriptions) serve(c *conn) error {
	var writer sync.WaitGroup
	writer.Go(func() { s.write(c) })
	err := s.read(c)
	s.mu.Lock()
	s.conn, c.over = nil, true
	c.changed.Signal()
	s.forEachLocked(func(_ string, ch *channel) {
		if !ch.confirmed {
			return
		}
		ch.confirmed = false
		for _, sub := range ch.subscriptions {
			sub.to.OnUnsubscribed()
		}
	})
	s.mu.Unlock()
	c.pinger.Stop()
	redisconn.Kill(c.raw)
	writer.Wait()
	c.raw.Close()
	return err
}

// write sends the commands, until the connection is over or broken, which the reader reports.
func (s *Subscriptions) write(c *conn) {
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

// takeUnsent waits for commands to send. It returns false when the connection is over.
func (s *Subscriptions) takeUnsent(c *conn) (batch []command, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(c.unsent) == 0 && !c.pingDue && !c.over {
		c.changed.Wait()
	}
	if c.over {
		return nil, false
	}
	if c.pingDue {
		for _, name := range slices.Sorted(maps.Keys(c.refused)) {
			c.sendLocked(command{"SUBSCRIBE", name, s.channels[name]})
		}
		c.unsent = append(c.unsent, ping)
		c.pinger.Reset(s.silenceLocked())
	}
	batch, c.unsent, c.pingDue = c.unsent, nil, false
	c.unanswered = append(c.unanswered, batch...)
	return batch, true
}

func (s *Subscriptions) read(c *conn) error {
	for {
		reply, err := redisconn.Receive(c.raw, 2*s.timeout)
		kind, name := parse(reply)
		if redisconn.IsServerError(err) {
			kind = kindError
		} else if err != nil {
			return err
		}
		if done, err := s.handle(c, kind, name); done || err != nil {
			return err
		}
	}
}

// handle takes one reply and calls the subscribers that it concerns. It reports whether the
// connection is done.
func (s *Subscriptions) handle(c *conn, kind, name string) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return true, nil
	}
	if c.moved {
		return false, errMoved
	}
	if kind != "message" {
		err = s.answeredLocked(c, kind, name)
	} else if ch := s.channels[name]; ch != nil {
		for _, sub := range ch.subscriptions {
			sub.to.OnMessage()
		}
	}
	return len(s.channels) == 0 && time.Since(c.idleSince) >= Linger, err
}

// answeredLocked takes the reply to the oldest command.
func (s *Subscriptions) answeredLocked(c *conn, kind, name string) error {
	if len(c.unanswered) == 0 {
		return errMessage
	}
	sent := c.unanswered[0]
	c.unanswered = c.unanswered[1:]
	if kind != kindError && (kind != answerTo[sent.name] || name != sent.channel) {
		return fmt.Errorf("%w: %.40q of %.40q after %s", errMessage, kind, name, sent.name)
	}
	if sent.name == "SUBSCRIBE" {
		s.subscribedLocked(c, sent, kind != kindError)
	}
	return nil
}

// subscribedLocked takes the reply to one SUBSCRIBE, unless all its subscribers have left: if others have come since, they
// have sent another.
func (s *Subscriptions) subscribedLocked(c *conn, sent command, confirmed bool) {
	ch := sent.of
	if s.channels[sent.channel] != ch {
		return
	}
	if ch.confirmed = confirmed; !confirmed {
		c.refused[sent.channel] = true
		return
	}
	if c.confirmedSince.IsZero() {
		c.confirmedSince = time.Now()
	}
	for _, sub := range ch.subscriptions {
		sub.to.OnSubscribed()
	}
}
