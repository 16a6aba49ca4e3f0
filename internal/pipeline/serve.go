package pipeline

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// maxResends bounds how often a request is resent, and how often a handshake whose connection broke
// is tried. A refused connection or a timeout needs no second proof.
const maxResends = 3

// errForgotten ends a connection that was idle for longer than a timeout, when a request gets no reply: a
// firewall may have forgotten it, while the server is well. So the requests are resent, as if the
// connection had broken. The next one is not idle, and its timeout takes the node down.
var errForgotten = errors.New("no reply over a connection that was idle")

var (
	// errResynced ends a connection to a server whose marker was its process's: it may have been made a replica, and have
	// its master's data.
	errResynced = errors.New("the server has another one's data")
	errMoved    = errors.New("the address leads to another process")
)

// serve carries requests over a connection until it dies, then resends, owes or fails those that
// had no reply. It returns nil when the pipe was closed and no request is left.
func (p *Pipe) serve(c *Conn) error {
	c.came = time.Now()
	go p.write(c)
	unread, err := p.read(c)

	p.mu.Lock()
	p.conn = nil
	p.canWrite.Broadcast()
	p.mu.Unlock()
	isMoved := errors.Is(err, errMoved)
	if !isMoved && (err != nil || c.Selected) {
		redisconn.Kill(c.redis)
	}
	<-c.writerDone
	if isMoved {
		p.cfg.Group.Go(func() { p.cfg.Left(c.redis, c.RunID) })
	} else {
		c.redis.Close()
	}
	if err == nil {
		return nil
	}

	failed := p.recover(unread, err)
	for _, r := range failed {
		r.finish(Result{Err: p.cfg.Error(r.call.Op(), err), Sent: true, Resent: r.resends > 0,
			NothingDone: r.void && r.resends == 0})
	}
	if redisconn.NotAMaster(err) || errors.Is(err, errResynced) || errors.Is(err, errAnotherReign) {
		p.cfg.Log.Left(err)
	}
	if c.isUseless(err) {
		p.goDown(err, false)
	}
	return err
}

// isUseless reports whether the next connection would be of no more use than this one, which ended with that error: the
// server is silent, or says that it is no master to the first request after a handshake as a master; or none is to be used.
func (c *Conn) isUseless(err error) bool {
	noneIsUsed := c.left != nil && c.left != errMoved
	return isSilent(err) || noneIsUsed || redisconn.NotAMaster(err) && !c.replied
}

// isSilent reports whether a reply has not come in time: the server's, or its replicas'.
func isSilent(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, redisconn.ErrNotReplicated)
}

// recover queues again the requests that had no reply when their connection died. It returns those
// that must not be resent.
func (p *Pipe) recover(unread []request, err error) (failed []request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := append(unread, p.written...)
	p.written = nil
	var resent []request
	for _, r := range lost {
		if r.call.IsAcquire() && r.footprint != nil && !r.void {
			r.footprint.mayArriveLate.Store(true)
		}
		if isSilent(err) || r.resends == maxResends || r.isAbandoned() {
			p.oweLocked(r)
			failed = append(failed, r)
			continue
		}
		if !r.void {
			r.resends++
		}
		r.void = false
		resent = append(resent, r)
	}
	p.queue = append(resent, p.queue...)
	p.state = connecting
	return failed
}

// write flushes the requests that gather in the queue, until the pipe drops the connection. It
// reports no error: redigo closes a broken socket for the reader too, and the reader reports it. A
// reader that has taken every reply, a stray one perhaps among them, waits for requests: it is
// woken.
func (p *Pipe) write(c *Conn) {
	defer close(c.writerDone)
	defer p.wakeReader()
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && p.conn == c {
			p.canWrite.Wait()
		}
		if p.isReading {
			// Replies wake callers that are about to queue more: it goes out in the same write. A
			// lone caller's request does not wait for the process's other goroutines.
			p.mu.Unlock()
			runtime.Gosched()
			p.mu.Lock()
		}
		if p.conn != c {
			p.mu.Unlock()
			return
		}
		// A request joins written before it is sent: if sending breaks the connection, the reader
		// returns the request.
		batch := p.arranger.arrange(p.queue)
		now := time.Now()
		for i := range batch {
			batch[i].asked = now
		}
		isSealed := c.Seal.Replicas > 0 && slices.ContainsFunc(batch, func(r request) bool { return c.Seal.Covers(r.call) })
		batch[len(batch)-1].sealed = isSealed
		p.written = append(p.written, batch...)
		clear(p.queue)
		p.queue = p.queue[:0]
		p.canRead.Signal()
		p.mu.Unlock()

		for left := batch; len(left) > 0; left = left[runOf(left):] {
			if err := c.sendRun(left[:runOf(left)]); err != nil {
				return
			}
		}
		if isSealed && c.sendSeal(p.cfg.Timeout) != nil || c.redis.Flush() != nil {
			return
		}
	}
}

func (p *Pipe) wakeReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.canRead.Signal()
}

// read hands out replies until the connection dies, and then returns the requests that had none, or none that counts. It
// returns nil when the pipe was closed and no request is left.
func (p *Pipe) read(c *Conn) (unread []request, err error) {
	var batch []request
	var held []unsealed
	for {
		p.mu.Lock()
		p.isReading = false
		for len(p.written) == 0 {
			if p.closing && len(p.queue) == 0 {
				p.mu.Unlock()
				return nil, nil
			}
			if err := cmp.Or(c.redis.Err(), c.left); err != nil { // the writer has ended: nothing more would be written
				p.mu.Unlock()
				return nil, err
			}
			p.canRead.Wait()
		}
		batch, p.written = p.written, batch[:0]
		p.isReading = true
		p.mu.Unlock()

		for left := batch; len(left) > 0; {
			run := left[:runOf(left)]
			wait, wasIdle := p.cfg.Timeout, run[0].asked.Sub(c.came) > p.cfg.Timeout
			if wasIdle { // what is left of the timeout is for the next connection
				wait /= 2
			}
			value, err := redisconn.Receive(c.redis, wait)
			c.came, c.replied = time.Now(), c.replied || err == nil
			left = left[len(run):]
			var undone []request
			switch {
			case err == nil && c.Seal.Covers(run[0].call):
				held = append(held, unsealed{run, value})
			case errors.Is(err, ErrTimeout) && wasIdle:
				undone, err = run, errForgotten
			default:
				undone, err = p.handle(c, run, value, err)
			}
			if err == nil && run[len(run)-1].sealed {
				err = c.readSeal(func() (any, error) { return redisconn.Receive(c.redis, p.cfg.Timeout) })
				for ; err == nil && len(held) > 0; held = held[1:] {
					undone, err = p.handle(c, held[0].run, held[0].value, nil)
				}
			}
			if err != nil {
				for _, h := range held {
					unread = append(unread, h.run...)
				}
				return slices.Concat(unread, undone, left), err
			}
		}
		clear(batch)
	}
}

// handle hands out a reply, or an error reply, to a request or to several that shared a run. With an error, the use of the
// connection ends; undone are the requests that then have no outcome.
func (p *Pipe) handle(c *Conn, run []request, value any, err error) (undone []request, _ error) {
	switch {
	case err == nil && len(run) > 1:
		undone, err = p.handleRun(c, run, value)
	case err == nil:
		reply, err := run[0].call.Parse(value)
		p.handOut(c, run[0], reply, err)
	case redisconn.NotAMaster(err) && (c.replied || run[0].call.IsRelease()):
		return asVoid(run, err), err
	case redisconn.NotAMaster(err):
		p.handleError(c, run, err)
		return nil, err
	case endsConn(c, run[0], err):
		return run, err
	default:
		p.handleError(c, run, err)
		err = nil
	}
	if c.resynced {
		err = errResynced
	}
	return undone, err
}

// endsConn reports whether an error ends the use of a connection. A busy server's refusal of a
// release does, as if the connection had died: the release is resent or owed, and is sent before
// any later request for a grant.
func endsConn(c *Conn, r request, err error) bool {
	return c.redis.Err() != nil || errors.Is(err, redisconn.ErrReply) || r.call.IsRelease() && redisconn.RefusesAll(err)
}

// handleError takes an error reply to a request, or to several that shared a run. One that may concern the
// key of one of them is not the others' error: each is sent alone.
func (p *Pipe) handleError(c *Conn, run []request, err error) {
	switch {
	case len(run) > 1 && redisconn.RefusesKeys(err):
		p.resendAlone(c, run)
		return
	case isNoScript(err) && !run[0].source:
		for i := range run {
			run[i].notKnown()
		}
		run = p.requeue(run...) // those left are abandoned
	}
	for _, r := range run {
		if r.call.Frees() {
			p.refused(r, err)
		}
		resent := r.resends > 0
		r.finish(Result{Err: p.cfg.Error(r.call.Op(), err), RunID: c.RunID, Sent: true, Resent: resent,
			NothingDone: !resent && redisconn.ProvesNothingDone(err), RefusesKeys: redisconn.RefusesKeys(err)})
	}
}

// notKnown notes that the server does not know the request's script. The second time, it is sent as text
// even if another request has just brought the text.
func (r *request) notKnown() { r.source, r.unknown = !r.unknown.IsZero(), r.asked }

// handOut hands out a parsed reply, as a Result.
func (p *Pipe) handOut(c *Conn, r request, reply scripts.Reply, err error) {
	result := Result{RunID: c.RunID, Sent: true, Resent: r.resends > 0, Reply: reply}
	c.note(reply)
	if err != nil {
		result.Err = p.cfg.Error(r.call.Op(), err)
	} else if left := result.Reply.Quarantine(); left > 0 {
		p.cfg.Log.Quarantined(Quarantine{Left: left, Asked: r.asked, Came: c.came})
	} else if refusal := result.Reply.NotAccepted; refusal != nil {
		p.cfg.Log.NotAccepted(r.call.List(), *refusal)
	}
	r.finish(result)
}

// asVoid returns requests that the server refused with that error, which are sent to the next one as if for the first
// time, if it has carried out nothing.
func asVoid(run []request, refusal error) []request {
	for i := range run {
		run[i].void = redisconn.ProvesNothingDone(refusal)
	}
	return run
}

// handleRun hands out the reply to requests that shared a run. A server that says that it is no master is left: those
// that it refused are returned with its error.
func (p *Pipe) handleRun(c *Conn, run []request, value any) (refused []request, notAMaster error) {
	replies, err := run[0].call.ParseRun(value, len(run))
	var undone []request
	for i, r := range run {
		var reply scripts.Reply
		alone, err := false, err
		if err == nil {
			reply, alone, err = replies.Of(i, r.call)
		}
		switch {
		case alone:
			undone = append(undone, r)
			continue
		case redisconn.NotAMaster(err):
			refused, notAMaster = append(refused, asVoid(run[i:i+1], err)...), err
			continue
		case r.call.Frees() && redisconn.IsServerError(err):
			p.refused(r, err)
		}
		p.handOut(c, r, reply, err)
	}
	p.resendAlone(c, undone)
	return refused, notAMaster
}

// resendAlone queues requests again that a shared run did not carry out. An owner that no longer wants a grant gets
// the reply that the server would send after its release.
func (p *Pipe) resendAlone(c *Conn, undone []request) {
	for i := range undone {
		undone[i].alone = true
	}
	for _, r := range p.requeue(undone...) {
		p.handOut(c, r, scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Barred}}, nil)
	}
}
