package pipeline

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxLease = 30 * time.Second

// newPipe returns a pipe that connects so.
func newPipe(lifetime context.Context, connect func(context.Context) (*Conn, error)) *Pipe {
	return New(Config{
		Timeout: time.Second, MaxLease: maxLease, Source: rand.NewPCG(1, 2), Lifetime: lifetime, Log: discardLog{},
		Group:   new(sync.WaitGroup),
		Connect: connect,
		Left:    func(redis.Conn, string) {},
		Error:   func(op string, err error) error { return fmt.Errorf("%s: %w", op, err) },
	})
}

// unconnected returns a pipe that cannot connect.
func unconnected() *Pipe {
	return newPipe(context.Background(), func(context.Context) (*Conn, error) { return nil, errNoServer })
}

// closeAndWait closes a pipe, and waits for its goroutines.
func closeAndWait(p *Pipe) {
	p.Close()
	p.cfg.Group.Wait()
}

type discardLog struct{}

func (discardLog) Down(error)                              {}
func (discardLog) StillDown(error)                         {}
func (discardLog) Up()                                     {}
func (discardLog) Quarantined(Quarantine)                  {}
func (discardLog) NotAccepted(*scripts.List, scripts.Seen) {}
func (discardLog) Left(error)                              {}
func (discardLog) ReleaseRefused(scripts.Call, error)      {}

// What a test's server says. A reply of nil ends the connection: nothing that comes after the command is read.
var (
	held        = []any{bulk("held"), int64(5), int64(0), bulk("x:1")}
	notAccepted = []any{bulk("marker"), bulk(""), bulk("0 run 30000 a d")}
	quarantined = []any{bulk("quarantined"), int64(5)}
	noScript    = redis.Error("NOSCRIPT No matching script.")
	oom         = redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	busy        = redis.Error("BUSY Redis is busy running a script.")
	noKey       = redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	noWrite     = redis.Error("ERR ACL failure in script: User app has no permissions to run the 'pexpire' command")
	noLock      = redis.Error(`QUORUMLOCK the key "k2" holds a hash that is no lock`)
	readOnly6   = redis.Error("ERR Error running script (call to f_1): @user_script:85: @user_script: 85: -READONLY You can't write.")
	readOnly    = redis.Error("READONLY You can't write against a read only replica.")
	errSilence  = errors.New("silence") // no reply
	errHungUp   = errors.New("hung up")
	errNoServer = errors.New("no server")
)

func bulk(s string) []byte { return []byte(s) }

// during is a reply before which calls are started: see [runs.start].
type during struct {
	calls string
	reply any
}

// scriptedConn is a connection whose replies a test chooses.
type scriptedConn struct {
	redis.ConnWithTimeout // of the methods that the pipe does not use

	r       *runs
	replies chan any // to the commands that were flushed
	unsent  []any    // replies to others
	isCut   bool

	mu  sync.Mutex
	err error
}

func (c *scriptedConn) die(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	return err
}

func (c *scriptedConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *scriptedConn) Do(string, ...any) (any, error) { return nil, c.Err() }
func (c *scriptedConn) Close() error                   { return nil }

func (c *scriptedConn) Send(name string, args ...any) error {
	if !c.isCut {
		reply := c.r.answer(name, args)
		c.unsent = append(c.unsent, reply)
		c.isCut = reply == nil
	}
	return nil
}

func (c *scriptedConn) Flush() error {
	for _, reply := range c.unsent {
		if reply != errSilence {
			c.replies <- reply
		}
	}
	c.unsent = nil
	c.r.flushes.Add(1)
	if c.isCut || c.r.breaks {
		time.Sleep(time.Millisecond) // the reader takes the replies
	}
	if c.r.breaks {
		return c.die(errHungUp)
	}
	return nil
}

func (c *scriptedConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case reply := <-c.replies:
		if reply != nil {
			err, _ := reply.(error)
			return reply, err
		}
		return nil, c.die(errHungUp)
	case <-timer.C:
		return nil, c.die(os.ErrDeadlineExceeded)
	}
}

// runs is a pipe in a bubble, to a server whose replies a test chooses. It connects once calls were started, so that these
// share a write.
type runs struct {
	t          *testing.T
	made       func(context.Context, *Conn) error // with each connection; nil for nothing
	pipe       *Pipe
	gate       chan struct{}
	open       func()
	footprints map[string]*Footprint // by owner
	results    []resultChan          // of calls that were started
	mu         sync.Mutex
	isDown     bool                     // no connection can be made
	reply      func(command string) any // also nil, errSilence or a during
	sent       []string
	conns      int // made so far
	last       *scriptedConn
	flushes    atomic.Int32
	breaks     bool // each write fails, and what it is answered can be read
	isOver     bool // only Close follows
}

// withRuns runs a test on a pipe to a server that replies so.
func withRuns(t *testing.T, reply func(command string) any, test func(t *testing.T, r *runs)) {
	synctest.Test(t, func(t *testing.T) {
		r := &runs{t: t, gate: make(chan struct{}), reply: reply, footprints: map[string]*Footprint{}}
		r.open = sync.OnceFunc(func() { close(r.gate) })
		lifetime, end := context.WithCancel(t.Context())
		r.pipe = newPipe(lifetime, r.connect)
		test(t, r)
		r.end()
		end()
		closeAndWait(r.pipe)
	})
}

func (r *runs) connect(ctx context.Context) (*Conn, error) {
	select {
	case <-r.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn := &scriptedConn{r: r, replies: make(chan any, 1000)}
	if !r.connected(conn) {
		return nil, errNoServer
	}
	c := NewConn(conn, "run", scripts.Process{}, maxLease)
	if r.made != nil {
		return c, r.made(ctx, c)
	}
	return c, nil
}

// connected notes a connection, if one can be made.
func (r *runs) connected(c *scriptedConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isDown {
		r.conns++
		r.last = c
	}
	return !r.isDown
}

// setDown says whether no connection can be made.
func (r *runs) setDown(isDown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isDown = isDown
}

// end is the end of the test: what waits for Close to be sent comes too late.
func (r *runs) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isOver = true
}

// answer notes a command, and returns its reply.
func (r *runs) answer(name string, args []any) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	command := commandOf(name, args)
	testkit.Check(r.t, !r.isOver, "%s is sent only when the pipe is closed", command)
	r.sent = append(r.sent, command)
	reply := r.reply(command)
	if d, ok := reply.(during); ok {
		r.start(d.calls)
		return d.reply
	}
	return reply
}

// commandOf names a command: "acquires 3" runs for three calls, "acquire k1" for one, "lower k1" is a release to a level
// above 0. One that is sent as text ends in an exclamation mark.
func commandOf(name string, args []any) string {
	for _, s := range scripts.All() {
		if args[0] != s.Source() && fmt.Sprintf("%x", sha1.Sum([]byte(s.Source()))) != args[0] {
			continue
		}
		keys, last := args[1].(int), args[len(args)-1]
		said := fmt.Sprint(s.Name(), " ", args[1+keys])
		switch s.Name() {
		case "acquires":
			said = fmt.Sprint("acquires ", (keys-1)/3)
		case "releases":
			said = fmt.Sprint("releases ", keys)
		case "release":
			if keys == 2 && fmt.Sprint(args[5]) != "0" {
				said = fmt.Sprint("lower ", args[3])
			}
			if _, isTime := last.(int64); isTime {
				said += " with a tombstone"
			}
		}
		if name == "EVAL" {
			said += "!"
		}
		return said
	}
	return name
}

// commands returns what was sent since the last call of commands.
func (r *runs) commands() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.sent
	r.sent = nil
	return strings.Join(list, ", ")
}

// start starts calls: see queueOf. An owner that releases no longer wants a grant.
func (r *runs) start(calls string) {
	for _, q := range queueOf(calls, r.footprints) {
		result := make(resultChan, 2)
		if q.call.Frees() {
			q.footprint.Abandon()
		}
		r.results = append(r.results, result)
		if err := r.pipe.Start(q.call, q.footprint, result); err != nil {
			result.Done(Result{Err: err})
		}
	}
	r.open()
}

// outcomes returns what the results say of the calls that had none when they were last asked for, in the order of their starts.
func (r *runs) outcomes(t *testing.T) string {
	t.Helper()
	testkit.Pass(20 * time.Millisecond)
	var said []string
	var open []resultChan
	for i, result := range r.results {
		testkit.Require(t, len(result) <= 1, "call %d has two outcomes", i)
		if len(result) == 0 {
			said, open = append(said, "none"), append(open, result)
			continue
		}
		said = append(said, outcomeOf(<-result))
	}
	r.results = open
	return strings.Join(said, "; ")
}

func outcomeOf(r Result) string {
	text := fmt.Sprintf("found %d, heard %d", r.Reply.Release.Found, r.Reply.Release.Heard)
	switch r.Reply.Acquire.Outcome {
	case scripts.Granted:
		text = fmt.Sprint("granted ", r.Reply.Acquire.Token)
	case scripts.HeldByAnother:
		text = "held by " + r.Reply.Acquire.Holder
	case scripts.Barred:
		text = "released"
	case scripts.NotAccepted:
		text = "not accepted by " + r.Reply.NotAccepted.Process.String()
	case scripts.Quarantined:
		text = "quarantined"
	}
	if r.Err != nil {
		text = r.Err.Error()
		if r.NothingDone {
			text += " (nothing done)"
		}
		if !r.Sent {
			text += ", not sent"
		}
	}
	if r.Resent {
		text += ", resent"
	}
	return text
}

// exchange is a command, and the reply to it.
type exchange struct {
	command string
	reply   any
}

// inOrder wants these commands, and no others.
func inOrder(t *testing.T, exchanges ...exchange) func(command string) any {
	t.Cleanup(func() { testkit.Check(t, len(exchanges) == 0, "never sent: %q", exchanges) })
	return func(command string) any {
		if len(exchanges) == 0 || exchanges[0].command != command {
			t.Errorf("%q is sent, want %q", command, exchanges)
			return int64(1)
		}
		reply := exchanges[0].reply
		exchanges = exchanges[1:]
		return reply
	}
}

// talk is what becomes of calls, which are started together but for pauses, each a bar.
type talk struct {
	calls     string
	exchanges []exchange
	want      string // the outcomes
}

func play(t *testing.T, talks map[string]talk) {
	for what, k := range talks {
		t.Run(what, func(t *testing.T) {
			withRuns(t, inOrder(t, k.exchanges...), func(t *testing.T, r *runs) {
				for calls := range strings.SplitSeq(k.calls, "|") {
					r.start(calls)
					testkit.Pass(20 * time.Millisecond)
				}
				testkit.Equal(t, r.outcomes(t), k.want, "the outcomes")
				testkit.Pass(2 * maxRetryPause) // for releases that were refused
			})
		})
	}
}
