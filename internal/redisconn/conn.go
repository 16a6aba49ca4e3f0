// Package redisconn uses a redigo connection so that no read or write lasts longer than a timeout, whatever the server and the
// network do, and, behind LimitReplies, so that no reply ends the process. Only a pool whose dial ignores its context can hold a
// caller up.
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	// ErrTimeout: the server did not answer in time. What it was asked may yet be carried out.
	ErrTimeout = errors.New("timed out")
	// ErrReply: the reply is none that redigo can read.
	ErrReply = errors.New("malformed reply")
	// ErrPool: the pool panicked.
	ErrPool = errors.New("the pool panicked")
)

// Pool is what is needed of a *redis.Pool.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// Get takes a connection, which is alive, from a pool that may be closed meanwhile. Redigo panics ("send on closed channel") when a
// pool that waits was closed and the context has ended: that is ErrPool. What a server repeats of a command, which may be a password,
// is cut from its error.
func Get(ctx context.Context, pool Pool) (c redis.Conn, err error) {
	defer func() {
		if x := recover(); x != nil {
			c, err = nil, fmt.Errorf("%w: %v", ErrPool, x)
		}
	}()
	c, err = pool.GetContext(ctx)
	if err == nil && c.Err() != nil {
		err = c.Err()
		c.Close()
	}
	if err != nil {
		return nil, redacted(err)
	}
	return c, nil
}

// redacted takes a command's arguments out of a server's error: a server that does not know AUTH repeats the password.
func redacted(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	text, _, found := strings.Cut(string(reply), ", with args beginning with")
	if !found {
		return err
	}
	return redis.Error(text)
}

// Send writes by a caller that is the connection's only user, and flushes. A pool of the caller's may have no timeout for writes.
func Send(c redis.Conn, timeout time.Duration, write func() error) error {
	killed := make(chan struct{})
	overdue := time.AfterFunc(timeout, func() {
		defer close(killed)
		Kill(c)
	})
	err := write()
	if err == nil {
		err = c.Flush()
	}
	if !overdue.Stop() {
		<-killed
		err = fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return err
}

// Receive reads one reply. An error of the connection's leaves it dead; the server's own error replies do not. A connection that is
// no redis.ConnWithTimeout is not read: every connection of a *redis.Pool is one.
func Receive(c redis.Conn, timeout time.Duration) (value any, err error) {
	defer func() {
		// redigo allocates what a reply's header announces: a pool of the caller's does not bound it.
		if x := recover(); x != nil {
			value, err = nil, fmt.Errorf("%w: %v", ErrReply, x)
		}
	}()
	value, err = redis.ReceiveWithTimeout(c, timeout)
	if err != nil && isTimeout(err) {
		err = fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return value, err
}

// ReceiveBy is Receive before the context's deadline, or within the timeout where it has none. Errors name the timeout.
func ReceiveBy(ctx context.Context, c redis.Conn, timeout time.Duration) (any, error) {
	left := timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	value, err := Receive(c, max(left, time.Nanosecond))
	if errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return value, err
}

// TimedOut makes ErrTimeout, with the timeout that was set, of a context's deadline. It leaves other errors, and what they say of
// where they come from, as they are.
func TimedOut(err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return err
}

// Kill makes sure that a connection is dead before it is closed: to close one with replies outstanding waits for them.
func Kill(c redis.Conn) {
	// To read with a deadline in the past fails and closes the socket, as soon as what is buffered has been read.
	for range 10_000 {
		if c.Err() != nil {
			return
		}
		Receive(c, time.Nanosecond)
	}
}

// IsBroken tells the error of a connection that was made and then died.
func IsBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &late) && late.Timeout()
}
