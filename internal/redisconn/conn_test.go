package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// redigo panics ("send on closed channel") when the context ends while it waits at a pool that was
// closed. Its select chooses by chance, so the test repeats until both branches have surely been
// taken.
func TestGetOutlivesAClosedPool(t *testing.T) {
	pool := &redis.Pool{Wait: true, MaxActive: 1, Dial: func() (redis.Conn, error) { return nil, errors.New("no") }}
	c, err := Get(t.Context(), pool.GetContext)
	testkit.Require(t, err != nil, "a connection of a pool that cannot dial: %v", c)
	testkit.Must(t, pool.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	panicked := 0
	for range 200 {
		_, err := Get(ctx, pool.GetContext)
		testkit.Require(t, err != nil, "a closed pool gives a connection that works")
		if errors.Is(err, ErrPool) {
			panicked++
		}
	}
	testkit.Check(t, panicked != 0, "redigo no longer panics: Get need not recover")
}

// nilError is an error that panics for its text, as a nil pointer may.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// The code that makes connections may panic, also for its error's text, or end its goroutine: that is no pool that was
// closed.
func TestGetOutlivesTheCodeThatMakesConnections(t *testing.T) {
	for want, dial := range map[string]func() error{
		"panic: collapsed":    func() error { panic("collapsed") },
		"ended its goroutine": func() error { runtime.Goexit(); return nil },
		"<nil>":               func() error { return (*nilError)(nil) },
	} {
		c, err := Get(t.Context(), (&redis.Pool{Dial: func() (redis.Conn, error) { return nil, dial() }}).GetContext)
		testkit.Check(t, c == nil && err != nil && strings.Contains(err.Error(), want) && !errors.Is(err, ErrPool), "%s: %v", want, err)
	}
}

// A server that does not know AUTH repeats the password in its error, and redigo the URL that it cannot parse.
func TestGetHidesPasswords(t *testing.T) {
	unknown := redis.Error("ERR unknown command `AUTH`, with args beginning with: `secret`, ")
	other := error(&url.Error{Op: "CONNECT", URL: "proxy", Err: io.EOF}) // of a dialer that goes through a proxy
	_, err := Get(t.Context(), (&redis.Pool{Dial: func() (redis.Conn, error) { return nil, other }}).GetContext)
	testkit.Is(t, err, other, "another error with a URL")
	_, err = Get(t.Context(), (&redis.Pool{Dial: func() (redis.Conn, error) { return nil, unknown }}).GetContext)
	testkit.Check(t, IsServerError(err) && strings.Contains(err.Error(), "AUTH") &&
		!strings.Contains(err.Error(), "secret"), "the error is %v", err)
	for _, raw := range []string{"redis://:secret%@h", "redis://app:secret@h:port", "redis://:se/secret@h"} {
		_, err = Get(t.Context(), (&redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(raw) }}).GetContext)
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "percent-encoded") && !strings.Contains(err.Error(), "secret"),
			"%s: %v", raw, err)
	}
}

// A connection that is dead already goes back to the pool, whose connections may be limited.
func TestGetClosesADeadConnection(t *testing.T) {
	pool := &redis.Pool{MaxActive: 1, Dial: func() (redis.Conn, error) {
		ours, theirs := net.Pipe()
		theirs.Close()
		c := redis.NewConn(ours, 0, 0)
		Kill(c)
		return c, nil
	}}
	c, err := Get(t.Context(), pool.GetContext)
	testkit.Check(t, c == nil && err != nil && pool.ActiveCount() == 0, "%v, %v, %d connections", c, err, pool.ActiveCount())
}

const timeout = time.Second

// withServer runs a test on a pool's connection without timeouts of its own, in a bubble: once on a
// bare one, and once on one whose deadlines are deferred.
func withServer(t *testing.T, test func(t *testing.T, c redis.Conn, server net.Conn)) {
	t.Helper()
	t.Run("bare", func(t *testing.T) {
		inBubble(t, 0, func(c net.Conn) net.Conn { return c }, test)
	})
	t.Run("deferred", func(t *testing.T) { inBubble(t, 0, DeferDeadlines, test) })
}

func inBubble(
	t *testing.T, writeTimeout time.Duration, wrap func(net.Conn) net.Conn,
	test func(t *testing.T, c redis.Conn, server net.Conn),
) {
	synctest.Test(t, func(t *testing.T) {
		ours, server := net.Pipe()
		defer server.Close()
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.NewConn(wrap(ours), 0, writeTimeout), nil }}
		defer pool.Close()
		c := testkit.Got(Get(t.Context(), pool.GetContext))(t)
		test(t, c, server)
		Kill(c)
		c.Close()
	})
}

// wantTimeout fails the test unless ErrTimeout came after that time and names the timeout.
func wantTimeout(t *testing.T, what string, err error, began time.Time, after time.Duration) {
	t.Helper()
	d := time.Since(began)
	testkit.Check(t, d >= after && d <= after+time.Microsecond, "%s ended after %v, want %v", what, d, after)
	testkit.Check(t, errors.Is(err, ErrTimeout) && strings.Contains(err.Error(), timeout.String()),
		"%s: %v, want ErrTimeout after %v", what, err, timeout)
}

// trickles has the server send a reply without end, a byte at a time, until nobody reads it.
func trickles(server net.Conn, apart time.Duration) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		for err := error(nil); err == nil; _, err = server.Write([]byte("+")) {
			time.Sleep(apart) // the bubble's time
		}
	}()
	return ended
}

// The timeout is for a whole reply, whose parts do not prolong it.
func TestReceiveFromAServerThatTrickles(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
		ended := trickles(server, timeout/4)
		began := time.Now()
		_, err := Receive(c, timeout)
		wantTimeout(t, "Receive", err, began, timeout)
		<-ended
	})
}

// heldUp is a connection whose process stands still in its first read, until late after the deadline.
type heldUp struct {
	net.Conn
	late time.Duration
	came string // by the deadline
}

func (h *heldUp) Read(p []byte) (int, error) {
	if h.late == 0 {
		return h.Conn.Read(p)
	}
	time.Sleep(timeout + h.late) // the bubble's time
	h.late = 0
	return copy(p, h.came), os.ErrDeadlineExceeded
}

// A process that stood still takes the reply that has come meanwhile; but the server gets no more time.
func TestReceiveInAProcessThatStoodStill(t *testing.T) {
	for _, late := range []time.Duration{lateBy, lateBy + 1, timeout} {
		wrap := func(c net.Conn) net.Conn { return DeferDeadlines(&heldUp{c, late, ""}) }
		inBubble(t, 0, wrap, func(t *testing.T, c redis.Conn, server net.Conn) {
			go io.WriteString(server, ":1\r\n")
			_, err := Receive(c, timeout)
			testkit.Check(t, (err == nil) == (late > lateBy), "late by %v: %v", late, err)
		})
		inBubble(t, 0, wrap, func(t *testing.T, c redis.Conn, server net.Conn) {
			ended := trickles(server, lateBy/2)
			began := time.Now()
			_, err := Receive(c, timeout)
			d := time.Since(began)
			<-ended
			testkit.Check(t, errors.Is(err, ErrTimeout) && d <= timeout+late+lateBy+time.Microsecond, "late by %v: %v after %v", late, err, d)
		})
		inBubble(t, 0, func(c net.Conn) net.Conn { return DeferDeadlines(&heldUp{c, late, ":1\r\n"}) },
			func(t *testing.T, c redis.Conn, _ net.Conn) {
				_, err := Receive(c, timeout)
				testkit.Check(t, err == nil, "late by %v, with the reply: %v", late, err)
			})
	}
}

// Each reply has the timeout to itself, whether it is buffered already or not.
func TestReceiveSlowReplies(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
		go func() {
			for range 5 {
				time.Sleep(timeout - time.Millisecond) // the bubble's time
				io.WriteString(server, ":1\r\n:2\r\n")
			}
		}()
		for i := range 10 {
			_, err := Receive(c, timeout)
			testkit.Require(t, err == nil, "reply %d: %v", i, err)
		}
		began := time.Now()
		_, err := Receive(c, timeout)
		wantTimeout(t, "Receive from a server that is silent now", err, began, timeout)
		testkit.Check(t, c.Err() != nil, "the connection is alive: the reply may come yet")
	})
}

// A connection whose reads cannot be bounded, such as one embedded as a redis.Conn, is not read.
func TestReceiveNeedsTimeouts(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
		time.AfterFunc(10*timeout, func() { server.Close() })
		began := time.Now()
		_, err := Receive(struct{ redis.Conn }{c}, timeout)
		d := time.Since(began)
		testkit.Check(t, d <= timeout && err != nil, "Receive ended after %v: %v, want an error within %v", d, err, timeout)
	})
}

// Error replies leave the connection alive.
func TestReceiveOfAnErrorReply(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
		go io.WriteString(server, "-ERR no\r\n:5\r\n")
		_, err := Receive(c, timeout)
		testkit.Check(t, IsServerError(err) && c.Err() == nil, "the error is %v, of the connection %v", err, c.Err())
		value, err := Receive(c, timeout)
		testkit.Check(t, value == int64(5) && err == nil, "the next reply is %v, %v", value, err)
	})
}

// redigo panics at a header that announces more than can be allocated.
func TestReceiveOfAHugeReply(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
		go io.WriteString(server, "$9223372036854775807\r\n")
		value, err := Receive(c, timeout)
		testkit.Check(t, errors.Is(err, ErrReply) && !IsServerError(err), "the reply is %v, %v, want ErrReply", value, err)
	})
}

func TestReceiveBy(t *testing.T) {
	for what, left := range map[string]time.Duration{"no deadline": 0, "an earlier deadline": timeout / 4, "a deadline that has passed": -1} {
		t.Run(what, func(t *testing.T) {
			withServer(t, func(t *testing.T, c redis.Conn, _ net.Conn) {
				ctx, within := t.Context(), timeout
				if left != 0 {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, left)
					defer cancel()
					within = max(left, time.Nanosecond)
				}
				began := time.Now()
				_, err := ReceiveBy(ctx, c, timeout)
				wantTimeout(t, "ReceiveBy", err, began, within)
			})
		})
	}
}

func TestTimedOut(t *testing.T) {
	testkit.Must(t, TimedOut(nil, timeout))
	err := TimedOut(fmt.Errorf("dial: %w", context.DeadlineExceeded), timeout)
	testkit.Check(t, errors.Is(err, ErrTimeout) && !errors.Is(err, context.DeadlineExceeded), "a deadline becomes %v", err)
	for _, err := range []error{io.EOF, context.Canceled, fmt.Errorf("keeping the marker: %w after 1s", ErrTimeout)} {
		testkit.Equal(t, TimedOut(err, timeout), err, "another error")
	}
}

func TestSendToAServerThatDoesNotRead(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, _ net.Conn) {
		began := time.Now()
		err := Send(c, timeout, func() error { return c.Send("PING") })
		wantTimeout(t, "Send", err, began, timeout)
		testkit.Check(t, c.Err() != nil, "the connection is alive: half a command may have been sent")
	})
	withServer(t, func(t *testing.T, c redis.Conn, _ net.Conn) {
		slow := &diesSlowly{ConnWithTimeout: c.(redis.ConnWithTimeout)}
		Send(slow, timeout, func() error { return slow.Send("PING") })
		testkit.Check(t, slow.dead, "the connection is used while Send kills it")
	})
}

// diesSlowly is a connection whose user may come while it is killed.
type diesSlowly struct {
	redis.ConnWithTimeout
	dead bool
}

func (d *diesSlowly) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := d.ConnWithTimeout.ReceiveWithTimeout(timeout)
	time.Sleep(time.Millisecond) // the bubble's time
	d.dead = true
	return reply, err
}

func TestSend(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
		const ping = "*1\r\n$4\r\nPING\r\n"
		received := make(chan string, 1)
		go func() {
			text := make([]byte, len(ping))
			io.ReadFull(server, text)
			received <- string(text)
		}()
		testkit.Must(t, Send(c, timeout, func() error { return c.Send("PING") }))
		testkit.Equal(t, <-received, ping, "the server received")
		bad := errors.New("bad")
		testkit.Equal(t, Send(c, timeout, func() error { return bad }), bad, "the error")
		time.Sleep(2 * timeout)  // the bubble's time
		testkit.Must(t, c.Err()) // a connection that was written to in time is not dead
	})
}

// Each command has its own reply, or error. Once the connection has died the rest have the error of which it died.
func TestRoundTrip(t *testing.T) {
	withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
		go func() {
			io.ReadFull(server, make([]byte, len("*1\r\n$4\r\nPING\r\n")*2))
			io.WriteString(server, "-ERR no\r\n:5\r\n")
		}()
		replies, errs := RoundTrip(t.Context(), c, timeout, []any{"PING"}, []any{"PING"})
		testkit.Check(t, IsServerError(errs[0]) && errs[1] == nil && replies[1] == int64(5), "%v, %v", replies, errs)
		began := time.Now()
		_, errs = RoundTrip(t.Context(), c, timeout, []any{"PING"}, []any{"PING"}) // the server reads no more
		for _, err := range errs {
			wantTimeout(t, "a round trip", err, began, timeout)
		}
	})
	withServer(t, func(t *testing.T, c redis.Conn, _ net.Conn) {
		_, errs := RoundTrip(t.Context(), diesAtFlush{c.(redis.ConnWithTimeout)}, timeout, []any{"PING"}, []any{"PING"})
		testkit.Check(t, errs[0] != nil && errs[1] != nil, "of a connection that has died: %v", errs)
	})
}

type diesAtFlush struct{ redis.ConnWithTimeout }

func (d diesAtFlush) Flush() error {
	Kill(d)
	return nil
}

// Closing a live connection would wait for its outstanding replies.
func TestKill(t *testing.T) {
	for what, sent := range map[string]string{"a silent server": "", "replies that are buffered": strings.Repeat(":1\r\n", 100), "half a reply": "$5\r\nab"} {
		t.Run(what, func(t *testing.T) {
			withServer(t, func(t *testing.T, c redis.Conn, server net.Conn) {
				go io.WriteString(server, ":0\r\n"+sent)
				go io.Copy(io.Discard, server)
				testkit.Must(t, Send(c, timeout, func() error { return errors.Join(c.Send("PING"), c.Send("PING")) }))
				if _, err := Receive(c, timeout); err != nil { // buffers the rest
					t.Fatal(err)
				}
				began := time.Now()
				Kill(c)
				testkit.Require(t, c.Err() != nil, "the connection is alive")
				c.Close()
				d := time.Since(began)
				testkit.Check(t, d <= time.Microsecond, "Kill and Close took %v", d)
			})
		})
	}
}

func TestIsBroken(t *testing.T) {
	for err, want := range map[error]bool{
		io.EOF: true, io.ErrUnexpectedEOF: true, io.ErrClosedPipe: true, syscall.EPIPE: true, &net.OpError{Op: "read", Err: syscall.ECONNRESET}: true,
		ErrTimeout: false, ErrReply: false, ErrPool: false, redis.Error("ERR no"): false, syscall.ECONNREFUSED: false,
	} {
		testkit.Equal(t, IsBroken(fmt.Errorf("wrapped: %w", err)), want, err)
		testkit.Check(t, !isTimeout(err), "%v is a timeout", err)
	}
}
