package node

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// linger is how long the connection for messages is kept when nobody listens any more: those who wait for a lock in turns come
// back soon.
const linger = 200 * time.Millisecond

// Listener hears what is published on a channel. Its methods are called one at a time, and not after stop has returned. They
// must not block, nor call Listen or stop.
type Listener interface {
	// Listening is called when the subscription stands, and again when it stands anew: what was published before may have been
	// missed.
	Listening()
	// Heard is called for each message.
	Heard()
	// Deaf is called when the subscription stands no more. The node goes on trying.
	Deaf()
}

// Listen subscribes to a channel until stop is called. All listeners of a node share one connection, beside those of WithConns;
// it is made for the first of them and closed soon after the last has stopped. Messages are no more than hints: some may be
// missed, and one may come twice.
func (n *Node) Listen(channel string, l Listener) (stop func()) { return n.ears.add(channel, l) }

// ears keeps the subscriptions of a node.
//
// A connection for messages dies when the server was silent for two time-outs, pinged after the first.
type ears struct {
	node *Node
	dice *rand.Rand // for the run goroutine

	mu       sync.Mutex
	channels map[string]*channel
	running  bool
	ended    chan struct{} // of the run goroutine
	closing  bool
	useless  chan struct{} // closed when a pause should end: nobody listens any more
	line     *line         // when there is a connection
}

// channel is one that somebody listens to.
type channel struct {
	listeners []Listener
	stands    bool
	refused   bool // by the server, which is asked again with the next ping
}

// line is one connection for messages.
type line struct {
	conn     redis.Conn
	changed  sync.Cond
	todo     []order
	asked    []order        // sent, the reply not read
	awaited  map[string]int // those of asked that are SUBSCRIBE, by channel
	ping     bool           // is due
	alarm    *time.Timer    // makes it so
	idle     time.Time      // since when nobody listens
	stood    time.Time      // since when a subscription does or did
	over     bool           // the writer is to end
	finished chan struct{}  // it has
}

// order is a change of subscriptions, or a ping.
type order struct {
	command string
	channel string
}

var pinged = order{command: "PING"}

func newEars(n *Node) *ears {
	return &ears{node: n, dice: rand.New(rand.NewPCG(n.opts.random.Uint64(), n.opts.random.Uint64())), channels: map[string]*channel{}}
}

func (e *ears) add(name string, l Listener) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.channels[name]
	if c == nil {
		c = &channel{}
		e.channels[name] = c
		e.orderLocked("SUBSCRIBE", name)
	}
	c.listeners = append(c.listeners, l)
	if !e.running && !e.closing {
		e.running, e.ended = true, make(chan struct{})
		go e.run(e.ended)
	}
	added := false
	defer func() {
		if !added { // nobody could stop one that panics
			e.removeLocked(name, c, l)
		}
	}()
	if c.stands {
		l.Listening()
	}
	added = true
	return sync.OnceFunc(func() { e.remove(name, c, l) })
}

func (e *ears) remove(name string, c *channel, l Listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeLocked(name, c, l)
}

func (e *ears) removeLocked(name string, c *channel, l Listener) {
	i := slices.Index(c.listeners, l)
	c.listeners = slices.Delete(c.listeners, i, i+1)
	if len(c.listeners) > 0 {
		return
	}
	delete(e.channels, name)
	e.orderLocked("UNSUBSCRIBE", name)
	if len(e.channels) == 0 {
		e.rouseLocked()
		if e.line != nil {
			e.line.idle = time.Now()
			e.line.alarm.Reset(e.quietLocked())
		}
	}
}

func (e *ears) orderLocked(command, channel string) {
	if e.line != nil {
		e.line.todo = append(e.line.todo, order{command, channel})
		e.line.changed.Signal()
	}
}

// quietLocked is how long a connection may be silent before it is pinged: the last one finds that nobody has listened for a while.
func (e *ears) quietLocked() time.Duration {
	if len(e.channels) == 0 {
		return min(linger, e.node.opts.timeout)
	}
	return e.node.opts.timeout
}

// rouseLocked ends a pause between two tries to connect.
func (e *ears) rouseLocked() {
	if e.useless != nil {
		close(e.useless)
		e.useless = nil
	}
}

// close ends the subscriptions. The channel that it returns is closed when nothing runs any more.
func (e *ears) close() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
	e.rouseLocked()
	if e.line != nil {
		e.line.ping = true // whatever comes ends it
		e.line.changed.Signal()
	}
	if !e.running {
		none := make(chan struct{})
		close(none)
		return none
	}
	return e.ended
}

// run keeps a connection while somebody listens.
func (e *ears) run(ended chan struct{}) {
	defer close(ended)
	backoff := minBackoff
	for e.goOn() {
		l, err := e.connect()
		if err == nil {
			if err = e.serve(l); err == nil {
				continue
			}
			// A server that lets everybody in and then throws them out is as good as dead.
			if !l.stood.IsZero() && time.Since(l.stood) >= maxBackoff {
				backoff = minBackoff
			}
		}
		if !e.pause(backoff/2 + time.Duration(e.dice.Int64N(int64(backoff)))) {
			continue
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// goOn tells whether somebody listens; if not, the goroutine has to end.
func (e *ears) goOn() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = len(e.channels) > 0 && !e.closing
	return e.running
}

// pause returns false when nobody listens any more.
func (e *ears) pause(d time.Duration) bool {
	e.mu.Lock()
	if e.useless == nil {
		e.useless = make(chan struct{})
	}
	useless := e.useless
	if len(e.channels) == 0 || e.closing {
		e.rouseLocked()
	}
	e.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-useless:
		return false
	}
}

func (e *ears) connect() (*line, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.node.opts.timeout)
	defer cancel()
	c, err := getConn(ctx, e.node.pool)
	if err != nil {
		return nil, err
	}
	if err := c.Err(); err != nil {
		c.Close()
		return nil, err
	}
	l := &line{conn: c, awaited: map[string]int{}, ping: true, finished: make(chan struct{})}
	l.changed.L = &e.mu
	l.alarm = time.AfterFunc(e.node.opts.timeout, func() { e.pingNow(l) })
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		l.alarm.Stop()
		c.Close()
		return nil, ErrClosed
	}
	e.line = l
	for name := range e.channels {
		l.todo = append(l.todo, order{"SUBSCRIBE", name})
	}
	slices.SortFunc(l.todo, func(a, b order) int { return strings.Compare(a.channel, b.channel) })
	if len(l.todo) == 0 {
		l.idle = time.Now()
	}
	return l, nil
}

func (e *ears) pingNow(l *line) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.ping = true
	l.changed.Signal()
}

// serve reads the connection until it dies, or nobody has listened for a while: then the error is nil.
func (e *ears) serve(l *line) error {
	go e.write(l)
	err := e.read(l)
	e.mu.Lock()
	e.line = nil
	l.over = true
	l.changed.Signal()
	for _, name := range slices.Sorted(maps.Keys(e.channels)) {
		c := e.channels[name]
		c.refused = false
		if !c.stands {
			continue
		}
		c.stands = false
		for _, listener := range c.listeners {
			listener.Deaf()
		}
	}
	e.mu.Unlock()
	l.alarm.Stop()
	killConn(l.conn)
	<-l.finished
	l.conn.Close()
	return err
}

// write sends what is to be changed, and the pings. A broken connection is the reader's to report.
func (e *ears) write(l *line) {
	defer close(l.finished)
	for {
		e.mu.Lock()
		for len(l.todo) == 0 && !l.ping && !l.over {
			l.changed.Wait()
		}
		if l.over {
			e.mu.Unlock()
			return
		}
		if l.ping {
			e.askAgainLocked(l)
			l.todo = append(l.todo, pinged)
			l.alarm.Reset(e.quietLocked())
		}
		todo := l.todo
		l.todo, l.ping = nil, false
		l.asked = append(l.asked, todo...)
		for _, o := range todo {
			if o.command == "SUBSCRIBE" {
				l.awaited[o.channel]++
			}
		}
		e.mu.Unlock()
		for _, o := range todo {
			args := []any{o.channel}
			if o == pinged {
				args = nil
			}
			if l.conn.Send(o.command, args...) != nil {
				return
			}
		}
		if l.conn.Flush() != nil {
			return
		}
	}
}

// askAgainLocked orders the subscriptions that were refused.
func (e *ears) askAgainLocked(l *line) {
	for _, name := range slices.Sorted(maps.Keys(e.channels)) {
		if c := e.channels[name]; c.refused {
			c.refused = false
			l.todo = append(l.todo, order{"SUBSCRIBE", name})
		}
	}
}

func (e *ears) read(l *line) error {
	for {
		reply, err := receive(l.conn, 2*e.node.opts.timeout)
		var kind, name string
		switch {
		case err == nil:
			kind, name, err = readMessage(reply)
		case l.conn.Err() == nil && isReply(err):
			kind, err = refusal, nil
		}
		if err != nil {
			return err
		}
		if over, err := e.take(l, kind, name); over || err != nil {
			return err
		}
	}
}

// take tells those who are to hear of a reply, and returns whether the connection has done its work.
func (e *ears) take(l *line, kind, name string) (over bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return true, nil
	}
	if kind == "message" {
		if c := e.channels[name]; c != nil {
			for _, listener := range c.listeners {
				listener.Heard()
			}
		}
		return false, nil
	}
	if len(l.asked) == 0 {
		return false, errMessage
	}
	asked := l.asked[0]
	l.asked = l.asked[1:]
	if kind != refusal && (kind != answerTo[asked.command] || name != asked.channel && asked != pinged) {
		return false, fmt.Errorf("%w: %s of %.40q after %s", errMessage, kind, name, asked.command)
	}
	if asked.command == "SUBSCRIBE" {
		e.subscribedLocked(l, asked.channel, kind != refusal)
	}
	return len(e.channels) == 0 && len(l.asked) == 0 && len(l.todo) == 0 && time.Since(l.idle) >= linger, nil
}

// subscribedLocked takes the answer to one subscription. A channel that was ordered, taken back and ordered again stands with
// the last.
func (e *ears) subscribedLocked(l *line, name string, stands bool) {
	if l.awaited[name]--; l.awaited[name] > 0 {
		return
	}
	delete(l.awaited, name)
	c := e.channels[name]
	if c == nil || c.stands || slices.Contains(l.todo, order{"SUBSCRIBE", name}) {
		return
	}
	c.stands, c.refused = stands, !stands
	if !stands {
		return
	}
	if l.stood.IsZero() {
		l.stood = time.Now()
	}
	for _, listener := range c.listeners {
		listener.Listening()
	}
}
