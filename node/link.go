package node

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
	"github.com/quorumlock/quorumlock/scripts"
)

// link is one connection of a pipe.
type link struct {
	conn       redis.Conn
	runID      string
	carrier    scripts.Carrier
	quarantine time.Duration // that was left when it was made
	writerGone chan struct{}
}

// write takes what has gathered in the queue and flushes it, again and again, until the pipe lets go of the link. A
// broken connection is the reader's to report: redigo closes the socket for both.
func (p *pipe) write(l *link) {
	defer close(l.writerGone)
	var batch []request
	scratch := make([]any, 0, 32)
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && p.link == l {
			p.canWrite.Wait()
		}
		if p.link != l {
			p.mu.Unlock()
			return
		}
		// The reader learns of a request before it is written: it is lost with the connection from then on.
		p.written = append(p.written, p.queue...)
		batch, p.queue = p.queue, batch[:0]
		p.canRead.Signal()
		p.mu.Unlock()

		for i := range batch {
			if err := l.send(&batch[i], scratch); err != nil {
				return
			}
		}
		clear(batch)
		if err := l.conn.Flush(); err != nil {
			return
		}
	}
}

func (l *link) send(r *request, scratch []any) error {
	by := l.carrier
	// The owner needs a tombstone only where a request of its may still be on the way; one that lowers its level goes on holding.
	if r.claim == nil || !r.claim.stray.Load() || !r.call.Frees() {
		by.Tombstone = scripts.NoTombstone
	}
	command, args := r.call.Command(scratch[:0], r.source, by)
	return l.conn.Send(command, args...)
}

// read hands out replies until the connection dies, and returns what had no reply, or until the node is closed and
// nothing is left to do.
func (p *pipe) read(l *link) (unread []request, err error) {
	var batch []request
	for {
		p.mu.Lock()
		for len(p.written) == 0 {
			if p.closing && len(p.queue) == 0 {
				p.mu.Unlock()
				return nil, nil
			}
			p.canRead.Wait()
		}
		batch, p.written = p.written, batch[:0]
		p.mu.Unlock()

		for i, r := range batch {
			value, err := receive(l.conn, p.node.opts.timeout)
			if err != nil && (l.conn.Err() != nil || errors.Is(err, scripts.ErrReply) || r.call.IsRelease() && refusesAll(err)) {
				// A release must be carried out, also by a server that is busy: as if the connection had died, it goes out again or is
				// owed, and nothing is granted before.
				return append([]request(nil), batch[i:]...), err
			}
			p.settle(l, r, value, err)
		}
		clear(batch)
	}
}

// settle decides what a reply means for the pipe, and otherwise hands it on.
func (p *pipe) settle(l *link, r request, value any, err error) {
	switch {
	case err != nil && !r.source && isNoScript(err):
		r.source = true
		if p.again(r) {
			return
		}
	case err != nil && r.call.Frees(): // a level that could not be lowered is for people to read, and not worth a second try
		p.setAside(r, err)
	case err == nil && !r.admitted && r.call.IsAcquire():
		reply, bad := scripts.ParseAcquire(value)
		switch {
		case bad != nil:
		case reply.Outcome == scripts.Quarantined:
			p.node.log.quarantined(reply.Wait)
		case reply.Outcome == scripts.Stale:
			r.admitted = true
			// In the pipeline, so that the marker stands before the request comes again.
			if p.again(request{call: p.node.admitCall(false), claim: r.claim, to: &readmission{pipe: p, request: r}}) {
				return
			}
		}
	}
	result := Result{Value: value, RunID: l.runID, Sent: true, Twice: r.deaths > 0}
	if err != nil {
		result.Err = &Error{p.node.Name(), r.call.Op(), err}
		result.Void = !result.Twice && provesNothingDone(err)
	}
	r.finish(result)
}

// readmission asks again for a grant that found the marker stale, once the marker has been written.
type readmission struct {
	pipe    *pipe
	request request
}

func (a *readmission) Done(r Result) {
	if a.request.deaths > 0 { // what is known of the marker's call says nothing of the copy that was cut off
		r.Twice, r.Void = true, false
	}
	if r.Err == nil {
		left, err := a.pipe.node.parseAdmission(r.Value)
		switch {
		case err != nil:
			r.Err = &Error{a.pipe.node.Name(), "admit", err}
		case left > 0:
			a.pipe.node.log.quarantined(left)
			r.Value = []any{[]byte("quarantined"), left.Milliseconds()}
		case a.pipe.again(a.request):
			return
		default:
			r.Value = []any{[]byte("released"), int64(0)} // abandoned: not asked again, so not granted
		}
	}
	a.request.finish(r)
}

// receive reads one reply. An error of the connection's leaves it dead; the server's own error replies do not.
func receive(c redis.Conn, timeout time.Duration) (value any, err error) {
	defer func() {
		// redigo allocates what a reply's header announces: a pool of the caller's does not bound it.
		if x := recover(); x != nil {
			value, err = nil, fmt.Errorf("%w: %v", scripts.ErrReply, x)
		}
	}()
	if _, ok := c.(redis.ConnWithTimeout); ok {
		value, err = redis.ReceiveWithTimeout(c, timeout)
	} else {
		value, err = c.Receive()
	}
	if err != nil && isTimeout(err) {
		err = fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return value, err
}

func isNoScript(err error) bool { return strings.HasPrefix(err.Error(), "NOSCRIPT") }

// isBroken tells a connection that was made and then died.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &late) && late.Timeout()
}

// writeWithin bounds a write by a caller that is the connection's only user: a pool of the caller's may have no time-out for writes.
func writeWithin(c redis.Conn, timeout time.Duration, write func() error) error {
	killed := make(chan struct{})
	overdue := time.AfterFunc(timeout, func() {
		defer close(killed)
		killConn(c)
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

// kill makes sure that a connection is dead before it is closed: closing one with replies outstanding waits for them.
func (l *link) kill() { killConn(l.conn) }

func killConn(c redis.Conn) {
	// Reading with a deadline in the past fails and closes the socket, as soon as what is buffered has been read.
	for range 10_000 {
		if c.Err() != nil {
			return
		}
		receive(c, time.Nanosecond)
	}
}
