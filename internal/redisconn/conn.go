// Package redisconn uses a redigo connection within timeouts, and classifies the errors of
// connections and servers.
//
// [Send], [Receive] and [ReceiveBy] return within the timeout, whatever the server and the network
// do. Behind [LimitReplies] no reply can end the process, and [DeferDeadlines] makes timeouts
// cheap. Only [Get] may take longer: a pool's dial may ignore its context.
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	// ErrTimeout: the server did not answer in time. It may still carry out the command.
	ErrTimeout = errors.New("timed out")
	// ErrNotReplicated: replicas that must acknowledge have not.
	ErrNotReplicated = errors.New("not replicated")
	// ErrNoMaster: the address or the sentinels led to no master, or to two. A failover may be under way.
	ErrNoMaster = errors.New("no sentinel leads to a master")
	// ErrReply: redigo cannot read the reply.
	ErrReply = errors.New("malformed reply")
	// ErrPool: the pool was closed.
	ErrPool = errors.New("the pool was closed")

	errEnded = errors.New("the code that makes connections has ended its goroutine (t.FailNow, runtime.Goexit)")
)

// Get takes a live connection, perhaps from a pool that may be closed concurrently. Redigo panics ("send on
// closed channel") when the context ends while Get waits at a pool that was closed: Get then
// returns [ErrPool]. Its errors never repeat a URL, or a command's arguments, which may have a password.
func Get(ctx context.Context, take func(context.Context) (redis.Conn, error)) (c redis.Conn, err error) {
	err = errEnded
	var making sync.WaitGroup
	making.Go(func() { // of its own: without the goroutine that it ends, a pipe would hang for ever
		defer func() {
			switch x := recover(); {
			case x == nil:
			case fmt.Sprint(x) == "send on closed channel":
				err = ErrPool
			default:
				err = fmt.Errorf("making a connection: panic: %v", x)
			}
		}()
		if c, err = take(ctx); err != nil {
			err = fmt.Errorf("%w", err) // with its text: its method may panic (of a nil pointer), or block the mutexes of a log
		} else if err = c.Err(); err != nil {
			c.Close()
		}
	})
	making.Wait()
	if err != nil {
		return nil, redacted(err)
	}
	return c, nil
}

// redacted cuts a command's arguments from a server's error: a server that does not know AUTH
// repeats the password. The error of a URL that cannot be parsed repeats the URL.
func redacted(err error) error {
	if parsing, ok := errors.AsType[*url.Error](err); ok && parsing.Op == "parse" {
		return errors.New("the pool's URL cannot be parsed " +
			"(special characters in a password must be percent-encoded, the port must be a number)")
	}
	reply, _ := errors.AsType[redis.Error](err)
	text, _, found := strings.Cut(string(reply), ", with args beginning with")
	if !found {
		return err
	}
	return redis.Error(text)
}

// Send calls write and flushes, within the timeout: a user's pool may set none for writes. At the
// timeout it kills the connection and returns [ErrTimeout]. The connection must have no other user.
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

// RoundTrip sends commands together, within the timeout, and returns the reply to each, or its error, before the context's
// deadline, or within the time for connecting if it has none.
func RoundTrip(ctx context.Context, c redis.Conn, timeout time.Duration, commands ...[]any) (replies []any, errs []error) {
	err := Send(c, timeout, func() error {
		for _, command := range commands {
			_ = c.Send(command[0].(string), command[1:]...) // its error is Flush's, too
		}
		return nil
	})
	for range commands {
		var reply any
		if err == nil || c.Err() == nil {
			reply, err = ReceiveBy(ctx, c, ConnectTimeout(timeout))
		}
		replies, errs = append(replies, reply), append(errs, err)
	}
	return replies, errs
}

// Receive reads one reply within the timeout, or returns [ErrTimeout]. An error of the connection
// leaves it dead; an error reply does not. The connection must be a redis.ConnWithTimeout, as every
// connection of a *redis.Pool is.
func Receive(c redis.Conn, timeout time.Duration) (any, error) { return receive(c, timeout, timeout) }

func receive(c redis.Conn, left, timeout time.Duration) (value any, err error) {
	defer func() {
		// redigo allocates what a reply's header announces. Only the connections of our own pools
		// bound that.
		if x := recover(); x != nil {
			value, err = nil, fmt.Errorf("%w: %v", ErrReply, x)
		}
	}()
	value, err = redis.ReceiveWithTimeout(c, left)
	if isTimeout(err) {
		err = fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return value, err
}

// ReceiveBy is [Receive] before the context's deadline, or within the timeout if it has none.
// Errors name the timeout.
func ReceiveBy(ctx context.Context, c redis.Conn, timeout time.Duration) (any, error) {
	left := timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	return receive(c, max(left, time.Nanosecond), timeout)
}

// TimedOut turns the error of a context's deadline into [ErrTimeout] with the timeout, and with the name that was looked up:
// then the server is not to blame. It returns other errors unchanged.
func TimedOut(err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		if lookup, ok := errors.AsType[*net.DNSError](err); ok {
			return fmt.Errorf("%w after %v: %v", ErrTimeout, timeout, lookup)
		}
		return fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return err
}

// Kill makes a connection dead before it is closed: closing a live one waits for its outstanding
// replies.
func Kill(c redis.Conn) {
	// A read with a deadline in the past fails and closes the socket, once the buffered replies
	// have been read.
	for range 10_000 {
		if c.Err() != nil {
			return
		}
		Receive(c, time.Nanosecond)
	}
}

// IsBroken reports whether err is of a connection that was made and then died.
func IsBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func isTimeout(err error) bool {
	ofNet, ok := errors.AsType[net.Error](err) // as contexts' deadlines are
	return ok && ofNet.Timeout()
}
