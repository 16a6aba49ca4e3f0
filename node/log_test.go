package node_test

import (
	"context"
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

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// lines is a log that calls the node while it writes, if there is one.
type lines struct {
	node *node.Node

	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	if l.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		inside.Of(l.node).Identify(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

// option is for a node that logs there.
func (l *lines) option() node.Option { return node.WithLogger(slog.New(slog.NewTextHandler(l, nil))) }

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "")
}

// logged counts the lines that contain all of the words.
func (l *lines) logged(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// A change of state is logged once, however many connections a node has and however many calls find
// it: through a quarantine, an outage, and a second quarantine. No call waits here, so that all
// connections find each state.
func TestLogOfANode(t *testing.T) { synctest.Test(t, logsItsStates) }

func logsItsStates(t *testing.T) {
	const maxLease = 5 * time.Second // all connections find a quarantine within it
	log := &lines{}
	w := world.New(t, 1)
	m := w.Masters
	n := w.NewProcess().Nodes(node.WithTimeout(bound), node.WithName(nodeName), node.WithMaxLease(maxLease), node.WithConns(4),
		log.option())[0]
	log.node = n
	name := "node=" + n.Name()
	found := map[string]bool{} // by each key, since the last change
	onAllConns := func(holds func(pipeline.Result) bool) func() bool {
		clear(found)
		return func() bool {
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				found[key] = found[key] || holds(doAt(t, n, key, acquireFor(maxLease, "k:"+key, "o:1")))
				if !found[key] {
					return false
				}
			}
			return true
		}
	}
	logged := func(n int, words ...string) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%q logged %d times", words, n), func() bool { return log.logged(words...) == n })
	}

	testkit.Eventually(t, "quarantined", onAllConns(isQuarantined))
	logged(1, "level=WARN", "in quarantine", name, "left=")
	testkit.Eventually(t, "granted", onAllConns(isGranted))
	logged(1, "level=INFO", "its quarantine is over", name)

	m[0].Crash(fakeredis.Everything)
	testkit.Eventually(t, "down", onAllConns(func(r pipeline.Result) bool { return r.Err != nil }))
	logged(1, "level=WARN", "node down", name, "connection refused")
	m[0].Start()
	testkit.Eventually(t, "quarantined again", onAllConns(isQuarantined))
	logged(1, "level=INFO", "answers again", name)
	logged(2, "in quarantine", name)
	testkit.Eventually(t, "granted again", onAllConns(isGranted))
	logged(2, "its quarantine is over", name)
	got := log.logged()
	testkit.Check(t, got == 6 && strings.Contains(log.all[3], "answers again"), "%d lines: %q", got, log.text())
}

// A master that restarts in its quarantine, again and again, has not granted in between. The log says so, and how often.
func TestLogOfAMasterThatKeepsRestarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxLease, often, every = 30 * time.Second, 6, 5 * time.Second
		log := &lines{}
		w := world.New(t, 1)
		m := w.Masters
		n := w.NewProcess().Nodes(node.WithName(nodeName), node.WithMaxLease(maxLease), log.option())[0]
		over := func() int { return log.logged("level=INFO", "node grants again, its quarantine is over") }
		for i := range often {
			if i > 0 {
				m[0].Crash(fakeredis.Memory(i % 2 * int(fakeredis.Everything)))
				m[0].Start()
			}
			testkit.Eventually(t, "quarantined", func() bool { return isQuarantined(do(t, n, acquireFor(maxLease, "k", "o:1"))) })
			testkit.Pass(every)
			testkit.Check(t, over() == 0, "restart %d: it grants nothing: %s", i, log.text())
			if i > 0 {
				again := log.logged("level=WARN", "node in quarantine again, and the last one was not over", fmt.Sprintf("times=%d ", i+1), "left=30s")
				testkit.Equal(t, again, 1, "lines about restart "+fmt.Sprint(i))
			}
		}
		testkit.Equal(t, log.logged("times=6 within=25s"), 1, "lines about the last restart")
		testkit.Pass(maxLease)
		testkit.Equal(t, over(), 1, "lines that it grants")
		m[0].Crash(fakeredis.Nothing)
		m[0].Start()
		testkit.Eventually(t, "quarantined", func() bool { return isQuarantined(do(t, n, acquireFor(maxLease, "k", "o:1"))) })
		testkit.Pass(every)
		testkit.Equal(t, log.logged("node in quarantine, it grants nothing new"), 2, "lines about the first one of a row: "+log.text())
	})
}

func isQuarantined(r pipeline.Result) bool { return outcome(r).Outcome == scripts.Quarantined }

// A quarantine that ended early, or started over, does not hide the next one. A client that did not
// find the marker missing logs it, too.
func TestLogOfQuarantines(t *testing.T) {
	t.Parallel()
	const maxLease = 6 * time.Second
	m := startReal(t)
	var all [2]lines
	var nodes [2]*node.Node
	for i := range nodes {
		n := openQuarantined(t, m.URL(), maxLease, node.WithTimeout(timeout), all[i].option())
		nodes[i], all[i].node = n, n
	}
	quarantines := func(times int) {
		t.Helper()
		for i, n := range nodes {
			testkit.Eventually(t, "quarantined", func() bool { return isQuarantined(do(t, n, acquireFor(maxLease, "k", "o:1"))) })
			testkit.Eventually(t, fmt.Sprintf("logged by node %d %d times", i, times), func() bool {
				do(t, n, acquireFor(maxLease, "k", "o:1")) // nothing is logged while one of the connections is down
				return all[i].logged("in quarantine") == times
			})
		}
	}
	quarantines(1)
	testkit.Must(t, operator.Admit(t.Context(), nodes[0]))
	testkit.Do(t, m, "FLUSHALL")
	pass := 2 * sameEnd
	time.Sleep(pass)
	quarantines(2)
	testkit.Must(t, m.Kill())
	testkit.Must(t, m.Start())
	time.Sleep(pass)
	quarantines(3)
	testkit.Do(t, m, "CLIENT", "KILL", "TYPE", "normal")
	quarantines(3)
	time.Sleep(maxLease) // nothing is asked of the node meanwhile
	for i := range nodes {
		testkit.Eventually(t, "the end logged", func() bool { return all[i].logged("level=INFO", "its quarantine is over") > 0 })
	}
}

const sameEnd = 100 * time.Millisecond // by how much two readings of one quarantine's end may differ

// The reason why a node is down may change with every probe. Not every one is logged.
func TestLogOfReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		var dials, changed atomic.Int32
		var due []string // the reasons that are logged: the first, and each at least 10 s after the last one logged
		var last time.Time
		pool := &redis.Pool{Dial: func() (redis.Conn, error) {
			switch changed.Load() {
			case 1:
				err := fmt.Errorf("it has no room, says dial %d", dials.Add(1))
				if now := time.Now(); now.Sub(last) >= 10*time.Second {
					due, last = append(due, err.Error()), now
				}
				return nil, err
			case 2:
				return nil, redis.Error("WRONGPASS invalid username-password pair")
			}
			return nil, redis.Error("ERR unknown command `AUTH`, with args beginning with: `secret`, ")
		}}
		n := openPool(t, pool, log.option())
		log.node = n
		testkit.Must(t, inside.Of(n).Pipe("key").Start(acquire("k", "o:1"), nil, make(answer, 1)))
		testkit.Pass(time.Minute)
		testkit.Check(t, log.logged("node refused", "unknown command", "AUTH") == 1 && log.logged("secret") == 0 &&
			log.logged() == 1, "logged %q", log.text())
		changed.Store(1)
		testkit.Pass(time.Minute)
		got := log.logged("node down", "it has no room")
		for _, reason := range due {
			testkit.Equal(t, log.logged("node down", reason+`"`), 1, reason)
		}
		testkit.Check(t, got == len(due) && got >= 3 && got <= 6,
			"%d lines in a minute, of reasons %q: %q", got, due, log.text())
		changed.Store(2)
		testkit.Pass(time.Minute)
		testkit.Check(t, log.logged("node refused, which will not pass by itself", "WRONGPASS") == 1, "logged %q", log.text())
	})
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
			inside.Of(one).Identify(t.Context())
		}
		testkit.Pass(time.Minute)
		told := log.logged("level=WARN", "node down", "node=stand-in", "section (server)")
		testkit.Check(t, told == 1 && log.logged("node=quiet") == 0, "logged %q", log.text())
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
		inside.Of(n).Identify(t.Context())
		<-log.messages
		synctest.Wait()
		began := time.Now()
		testkit.Must(t, n.Close())
		took := time.Since(began)
		testkit.Check(t, took < timeout, "Close waited %v for a log that is gone", took)
	})
}
