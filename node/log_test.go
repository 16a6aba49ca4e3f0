package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// lines is a log that calls the node while it writes, if there is one.
type lines struct {
	node *node.Node
	child.Printed
}

func (l *lines) Write(line []byte) (int, error) {
	if l.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		identify(ctx, l.node)
	}
	return l.Printed.Write(line)
}

// option is for a node that logs there.
func (l *lines) option() node.Option { return node.WithLogger(slog.New(slog.NewTextHandler(l, nil))) }

// logged counts the lines that contain all of the words.
func (l *lines) logged(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// A node of a program that gives it no logger says what it finds to the default one, as it is then:
// what no call returns would be silent else. A server that cannot be identified is told, too.
func TestTheDefaultLogger(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	// Nodes of other tests may log here, too, and must not call a node in this bubble.
	log := &lines{}
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	synctest.Test(t, func(t *testing.T) {
		pool := &redis.Pool{Dial: func() (redis.Conn, error) {
			return nil, redis.Error("ERR section (server) is not supported")
		}}
		n := openPool(t, pool, node.WithName("stand-in"))
		quiet := openPool(t, pool, node.WithName("quiet"), node.WithLogger(slog.New(slog.DiscardHandler)))
		for _, one := range []*node.Node{n, quiet} {
			identify(t.Context(), one)
		}
		testkit.Pass(time.Minute)
		told := log.logged("level=WARN", "node down", "node=stand-in", "section (server)")
		testkit.Check(t, told == 1 && log.logged("node=quiet") == 0, "logged %q", log.String())
	})
}

// A slow logger delays no call, and is not called after Close.
func TestASlowLogDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := testkit.NewServer(t, timeout, fakeredis.New(time.Now, 1).Serve)
		free := make(chan struct{})
		var logged atomic.Int32
		n := openPool(t, srv.Pool, node.WithLogger(slog.New(enabling{slog.DiscardHandler, func() {
			logged.Add(1)
			<-free
		}})), node.WithTimeout(timeout))
		mark(t, n)
		for i := range 20 {
			isDead := i%2 == 0
			srv.SetDead(isDead)
			srv.Kill()
			testkit.Pass(5 * time.Second)
			a := start(n, "key", acquire("k", "o:1"), nil)
			testkit.Pass(5 * time.Second)
			r := await(t, a)
			testkit.Check(t, isGranted(r) != isDead, "flap %d: %v", i, r.Err)
		}
		testkit.Equal(t, logged.Load(), 1, "lines at one time")
		began := time.Now()
		testkit.Must(t, n.Close())
		d := time.Since(began)
		testkit.Check(t, d <= 2*timeout, "Close took %v", d)
		close(free)
		testkit.Pass(time.Minute)
		testkit.Equal(t, logged.Load(), 1, "lines after Close")
	})
}

// enabling is a handler that calls a function before it reports that nothing is enabled.
type enabling struct {
	slog.Handler
	enabled func()
}

func (e enabling) Enabled(context.Context, slog.Level) bool { e.enabled(); return false }
func (e enabling) WithAttrs([]slog.Attr) slog.Handler       { return e }

// quitter is a handler that ends the goroutine that calls it, as t.FailNow does.
type quitter struct {
	slog.Handler
	messages chan string
}

func (q quitter) WithAttrs([]slog.Attr) slog.Handler { return q }
func (q quitter) Handle(_ context.Context, r slog.Record) error {
	q.messages <- r.Message
	runtime.Goexit()
	return nil
}

// A handler that ends the node's goroutine still gets the next line, and does not delay
// Close.
func TestLogThatEndsItsGoroutine(t *testing.T) {
	const timeout = 10 * time.Second
	log := quitter{slog.NewTextHandler(io.Discard, nil), make(chan string, 10)}
	synctest.Test(t, func(t *testing.T) {
		srv := testkit.NewServer(t, timeout, func(c net.Conn) { c.Close() })
		n := openPool(t, srv.Pool, node.WithTimeout(timeout), node.WithLogger(slog.New(log)))
		identify(t.Context(), n)
		<-log.messages
		synctest.Wait()
		began := time.Now()
		testkit.Must(t, n.Close())
		took := time.Since(began)
		testkit.Check(t, took < timeout, "Close waited %v for a log that is gone", took)
	})
}

// seen collects the events of a node's hooks.
type seen struct {
	mu      sync.Mutex
	states  []node.StateEvent
	scripts []node.ScriptEvent
}

func (s *seen) hooks() node.Hooks {
	return node.Hooks{
		StateChanged: func(e node.StateEvent) { s.mu.Lock(); s.states = append(s.states, e); s.mu.Unlock() },
		ScriptEnded:  func(e node.ScriptEvent) { s.mu.Lock(); s.scripts = append(s.scripts, e); s.mu.Unlock() },
	}
}

func (s *seen) lastState() (last node.StateEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.states); n > 0 {
		last = s.states[n-1]
	}
	return last
}

func (s *seen) all() []node.StateEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.states)
}

// lastRun returns the last run of a script, and how many there were.
func (s *seen) lastRun(script string) (last node.ScriptEvent, runs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.scripts {
		if e.Script == script {
			last, runs = e, runs+1
		}
	}
	return last, runs
}

// The hook is told of each state in its turn, and the node has the state that it was told last.
func TestStateChanged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		var s seen
		n := openQuarantined(t, m.URL(), short, node.WithTimeout(timeout), node.WithHooks(s.hooks()))
		becomes := func(want string) node.StateEvent {
			t.Helper()
			testkit.Eventually(t, fmt.Sprint("the hook is told of ", want), func() bool {
				do(t, n, acquireFor(short, "k", "o:1"))
				return s.lastState().State == want
			})
			e := s.lastState()
			testkit.Equal(t, e.Node, nodeName, "the event's node")
			return e
		}
		testkit.Equal(t, n.State(), inside.Unknown, "the state before the first call")
		left := becomes(inside.Quarantined).Quarantine
		testkit.Check(t, left > 0 && left <= short && n.State() == inside.Quarantined,
			"the quarantine of %v has %v left, and the state is %v", short, left, n.State())
		testkit.Eventually(t, "up by the clock", func() bool { return n.State() == inside.Up })

		testkit.Must(t, m.Kill())
		err := becomes(inside.Down).Err
		testkit.Check(t, err != nil && n.State() == inside.Down, "down with the error %v, and the state is %v", err, n.State())
		testkit.Equal(t, n.LastError().Code(), "connection", "the last error of a killed master")
		testkit.Must(t, m.Start())
		testkit.Eventually(t, "up again", func() bool { return n.State() != inside.Down })
		testkit.Check(t, slices.ContainsFunc(s.all(), func(e node.StateEvent) bool { return e.State == inside.Up }),
			"the hook never got the node's state up: %v", s.all())
	})
}

// Each call's run of a script is told once: a grant, an error of the server's, a timeout.
func TestScriptEnded(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	var s seen
	n := open(t, m.URL(), node.WithHooks(s.hooks()), node.WithTimeout(timeout))
	began := time.Now()
	mark(t, n)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	told := func(script string, runs int, kind string) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprint(script, " told ", runs, " times"), func() bool { _, n := s.lastRun(script); return n == runs })
		e, _ := s.lastRun(script)
		got := ""
		if failed, ok := errors.AsType[*node.Error](e.Err); ok {
			got = failed.Code()
		}
		testkit.Check(t, e.Node == nodeName && e.Address == m.Addr() && e.Duration > 0 && e.Duration <= time.Since(began) &&
			got == kind, "%s: told %+v, of kind %q", script, e, got)
	}
	told("acquire", 1, "")
	testkit.Do(t, m, "SET", "text", "x")
	do(t, n, acquire("text", "o:1"))
	told("acquire", 2, "WRONGTYPE")
	testkit.Must(t, inside.Of(n).Pipe("key").Start(release("k", "o:2"), new(pipeline.Footprint), nil)) // who asks does not wait
	told("release", 1, "")
	testkit.Must(t, m.Freeze())
	do(t, n, release("k", "o:1"))
	testkit.Must(t, m.Thaw())
	told("release", 2, "timeout")
	e, _ := s.lastRun("release")
	testkit.Check(t, e.Duration >= timeout, "a call that timed out after %v took %v", timeout, e.Duration)

	var ofPool seen // which does not know its address
	nowhere := openPool(t, &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errNoRoute }}, node.WithName(""), node.WithHooks(ofPool.hooks()))
	do(t, nowhere, scripts.Look())
	testkit.Eventually(t, "told", func() bool { _, n := ofPool.lastRun("look"); return n == 1 })
	e, _ = ofPool.lastRun("look")
	testkit.Check(t, e.Node == inside.Unnamed && e.Address == "", "told %+v", e)
	if !redistest.Has(redistest.ClientInfo) {
		return // such a server does not tell its address
	}
	do(t, openPool(t, poolOf(m.Addr()), node.WithName(""), node.WithHooks(ofPool.hooks())), scripts.Look())
	testkit.Eventually(t, "told", func() bool { e, n := ofPool.lastRun("look"); return n == 2 && e.Address == m.Addr() })
}
