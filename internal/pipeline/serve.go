package pipeline

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// maxResends bounds how often a request goes out once more, and a broken handshake is tried again, before the server is taken for
// dead. A connection that is refused, or a timeout, needs no second proof.
const maxResends = 3

// serve carries requests over a connection until it dies, then decides what becomes of those under way. It returns nil when the pipe
// was closed and nothing is left to do.
func (p *Pipe) serve(c *Conn) error {
	go p.write(c)
	unread, err := p.read(c)

	p.mu.Lock()
	p.conn = nil
	p.canWrite.Broadcast()
	p.mu.Unlock()
	if err != nil {
		redisconn.Kill(c.redis)
	}
	<-c.writerDone
	c.redis.Close()
	if err == nil {
		return nil
	}

	failed := p.recover(unread, err)
	for _, r := range failed {
		r.finish(Result{Err: p.cfg.Error(r.call.Op(), err), Sent: true, Resent: r.resends > 0})
	}
	if errors.Is(err, ErrTimeout) {
		p.goDown(err)
	}
	return err
}

// recover queues what was under way on a connection that died once more, and returns what must not go out again.
func (p *Pipe) recover(unread []request, err error) (failed []request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := append(unread, p.written...)
	p.written = nil
	var again []request
	for _, r := range lost {
		if r.call.IsAcquire() && r.claim != nil {
			r.claim.mayArriveLate.Store(true)
		}
		if errors.Is(err, ErrTimeout) || r.resends == maxResends || r.isAbandoned() {
			p.oweLocked(r)
			failed = append(failed, r)
			continue
		}
		r.resends++
		again = append(again, r)
	}
	p.queue = append(again, p.queue...)
	p.state = connecting
	return failed
}

// write takes what has gathered in the queue and flushes it, again and again, until the pipe lets go of the connection. A broken
// connection is the reader's to report: redigo closes the socket for both.
func (p *Pipe) write(c *Conn) {
	defer close(c.writerDone)
	var batch []request
	scratch := make([]any, 0, 32)
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && p.conn == c {
			p.canWrite.Wait()
		}
		if p.conn != c {
			p.mu.Unlock()
			return
		}
		// The reader learns of a request before it is written: it is lost with the connection from then on.
		p.written = append(p.written, p.queue...)
		batch, p.queue = p.queue, batch[:0]
		p.canRead.Signal()
		p.mu.Unlock()

		for i := range batch {
			if err := c.send(&batch[i], scratch); err != nil {
				return
			}
		}
		clear(batch)
		if err := c.redis.Flush(); err != nil {
			return
		}
	}
}

// read hands out replies until the connection dies, and returns what had no reply, or until the pipe is closed and nothing is left to
// do.
func (p *Pipe) read(c *Conn) (unread []request, err error) {
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
			value, err := redisconn.Receive(c.redis, p.cfg.Timeout)
			if err != nil && (c.redis.Err() != nil || errors.Is(err, redisconn.ErrReply) || r.call.IsRelease() && redisconn.RefusesAll(err)) {
				// A release must be carried out, also by a server that is busy: as if the connection had died, it goes out again or is
				// owed, and nothing is granted before.
				return slices.Clone(batch[i:]), err
			}
			if err != nil {
				p.failed(c, r, err)
			} else {
				p.answered(c, r, value)
			}
		}
		clear(batch)
	}
}

// failed takes an error reply to a request.
func (p *Pipe) failed(c *Conn, r request, err error) {
	if !r.source && isNoScript(err) {
		r.source = true
		if p.requeue(r) {
			return
		}
	} else if r.call.Frees() {
		p.setAside(r, err)
	}
	resent := r.resends > 0
	r.finish(Result{Err: p.cfg.Error(r.call.Op(), err), RunID: c.RunID, Sent: true, Resent: resent,
		NothingDone: !resent && redisconn.ProvesNothingDone(err), RefusesKeys: redisconn.RefusesKeys(err)})
}

// answered takes a reply to a request, and parses it: nobody else does.
func (p *Pipe) answered(c *Conn, r request, value any) {
	result := Result{RunID: c.RunID, Sent: true, Resent: r.resends > 0}
	var err error
	if result.Reply, err = r.call.Parse(value); err != nil {
		result.Err = p.cfg.Error(r.call.Op(), err)
	} else if r.call.IsAcquire() && !r.admitted {
		switch result.Reply.Acquire.Outcome {
		case scripts.Quarantined:
			p.cfg.Log.Quarantined(result.Reply.Acquire.Wait)
		case scripts.Stale:
			r.admitted = true
			// In the pipeline, so that the marker stands before the request comes again.
			if p.requeue(request{call: p.cfg.Admit(), claim: r.claim, to: &readmission{pipe: p, request: r}}) {
				return
			}
		}
	}
	r.finish(result)
}

// readmission asks again for a grant that found the marker stale, once the marker has been written.
type readmission struct {
	pipe    *Pipe
	request request
}

func (a *readmission) Done(r Result) {
	p := a.pipe
	if a.request.resends > 0 { // what is known of the marker's call says nothing of the request that was lost
		r.Resent, r.NothingDone = true, false
	}
	if r.Err == nil {
		left, err := p.cfg.Admitted(r.Reply.Admit)
		switch {
		case err != nil:
			r.Err = p.cfg.Error("admit", err)
		case left > 0:
			p.cfg.Log.Quarantined(left)
			r.Reply = scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Quarantined, Wait: left}}
		case p.requeue(a.request):
			return
		default: // abandoned: not asked again, so not granted
			r.Reply = scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Released}}
		}
	}
	a.request.finish(r)
}
