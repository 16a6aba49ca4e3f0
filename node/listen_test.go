package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/node"
)

// linger is the node's: how long the connection for messages outlives the last listener.
const linger = 200 * time.Millisecond

// listener notes what it hears.
type listener struct {
	mu    sync.Mutex
	heard []string
}

func (l *listener) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, what)
}

func (l *listener) Listening() { l.note("listening") }
func (l *listener) Heard()     { l.note("heard") }
func (l *listener) Deaf()      { l.note("deaf") }

// wants fails the test unless that is all that was heard.
func (l *listener) wants(t *testing.T, who string, what ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.heard, what) {
		t.Fatalf("%s was told %v, want %v", who, l.heard, what)
	}
}

// exchange connects a node to a server, both in a bubble.
type exchange struct {
	pool    *redis.Pool
	serving sync.WaitGroup

	mu    sync.Mutex
	serve func(net.Conn)
	dead  bool
	dials int
	conns []net.Conn // the server's ends
}

// inBubble runs a test of a node whose connections serve answers, by default a master as it should be.
func inBubble(t *testing.T, serve func(net.Conn), test func(*testing.T, *node.Node, *exchange)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if serve == nil {
			serve = fakeredis.New(time.Now, 1).Serve
		}
		x := &exchange{serve: serve}
		x.pool = &redis.Pool{MaxIdle: 1, DialContext: x.dial}
		t.Cleanup(func() {
			x.kill()
			x.serving.Wait()
			must(t, x.pool.Close())
		})
		test(t, over(t, x.pool), x)
	})
}

func (x *exchange) dial(context.Context) (redis.Conn, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dials++
	if x.dead {
		return nil, errors.New("nobody is there")
	}
	return x.connectLocked(), nil
}

func (x *exchange) connectLocked() redis.Conn {
	ours, theirs := net.Pipe()
	x.conns = append(x.conns, theirs)
	serve := x.serve
	x.serving.Go(func() { serve(theirs) })
	return redis.NewConn(ours, timeout, timeout)
}

// do runs a command on the server beside the node.
func (x *exchange) do(t *testing.T, command string, args ...any) any {
	t.Helper()
	x.mu.Lock()
	c := x.connectLocked()
	x.mu.Unlock()
	defer c.Close()
	reply, err := c.Do(command, args...)
	must(t, err)
	synctest.Wait()
	return reply
}

// kill closes the connections that there are.
func (x *exchange) kill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		c.Close()
	}
	x.conns = nil
}

func (x *exchange) setDead(dead bool) {
	x.mu.Lock()
	x.dead = dead
	x.mu.Unlock()
}

func (x *exchange) setServe(serve func(net.Conn)) {
	x.mu.Lock()
	x.serve = serve
	x.mu.Unlock()
}

func (x *exchange) dialled() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dials
}

// frozen accepts and never answers.
func frozen(c net.Conn) {
	defer c.Close()
	io.Copy(io.Discard, c)
}

// answering serves what handle returns for each command.
func answering(handle func(args []string) string) func(net.Conn) {
	return func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		for {
			args, err := readCommand(r)
			if err != nil {
				return
			}
			reply := handle(args)
			if reply == hangUp {
				return
			}
			if _, err := io.WriteString(c, reply); err != nil {
				return
			}
		}
	}
}

// subscriber answers as a server does to one who listens: to PING, and to all else by its name and its argument.
func subscriber(args []string) string {
	switch args[0] {
	case "PING":
		return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	default:
		return "*3\r\n" + bulk(strings.ToLower(args[0])) + bulk(args[1]) + ":1\r\n"
	}
}

// pass lets the bubble's time pass, and wants all that is due then done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// earsRunning counts the goroutines by which nodes listen.
func earsRunning() int {
	stacks := make([]byte, 1<<20)
	text := string(stacks[:runtime.Stack(stacks, true)])
	return strings.Count(text, "node.(*ears).run(") + strings.Count(text, "node.(*ears).write(")
}

func wantNoEars(t *testing.T) {
	t.Helper()
	if n := earsRunning(); n != 0 {
		t.Errorf("%d goroutines go on listening", n)
	}
}

func TestListenersShareAConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
		var all [3][10]listener
		for c := range all {
			for i := range all[c] {
				stop := n.Listen(fmt.Sprint("channel", c), &all[c][i])
				defer stop()
			}
			synctest.Wait()
		}
		x.do(t, "PUBLISH", "channel1", "0")
		for c := range all {
			for i := range all[c] {
				want := []string{"listening"}
				if c == 1 {
					want = append(want, "heard")
				}
				all[c][i].wants(t, fmt.Sprintf("listener %d of channel %d", i, c), want...)
			}
		}
		pass(time.Minute) // the pings keep it
		if got := x.dialled(); got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
	})
}

// Whoever comes when the subscription stands is told so at once; whoever has left hears nothing more.
func TestListenersComeAndGo(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
		var first, second, third listener
		stopFirst := n.Listen("c", &first)
		synctest.Wait()
		stopSecond := n.Listen("c", &second)
		second.wants(t, "the second", "listening")
		x.do(t, "PUBLISH", "c", "0")
		stopFirst()
		stopFirst() // once is enough
		x.do(t, "PUBLISH", "c", "0")
		stopSecond()
		synctest.Wait()
		if got := x.do(t, "PUBLISH", "c", "0"); got != int64(0) {
			t.Errorf("%v listen when all have stopped", got)
		}
		stopThird := n.Listen("c", &third)
		defer stopThird()
		synctest.Wait()
		x.do(t, "PUBLISH", "c", "0")
		first.wants(t, "the first", "listening", "heard")
		second.wants(t, "the second", "listening", "heard", "heard")
		third.wants(t, "the third", "listening", "heard")
	})
}

// A subscription that was taken back and made again stands with the reply to the last request, not to the first, whether the
// last has been sent by then (waits) or not.
func TestListeningMeansTheLastSubscription(t *testing.T) {
	for _, waits := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
			permits := make(chan struct{})
			t.Cleanup(func() { close(permits) })
			x.setServe(answering(func(args []string) string {
				if args[0] != "PING" {
					<-permits
				}
				return subscriber(args)
			}))
			var first, second, third listener
			stop := n.Listen("c", &first)
			synctest.Wait() // the request has been sent
			stop()
			if waits {
				synctest.Wait()
			}
			stop = n.Listen("c", &second)
			synctest.Wait()
			stop()
			stop = n.Listen("c", &third)
			defer stop()
			for _, reply := range []string{"subscribe", "unsubscribe", "subscribe", "unsubscribe"} {
				permits <- struct{}{}
				synctest.Wait()
				third.wants(t, "the third, after one more "+reply)
			}
			permits <- struct{}{}
			synctest.Wait()
			third.wants(t, "the third", "listening")
			first.wants(t, "the first")
			second.wants(t, "the second")
		})
	}
}

func TestTheConnectionLingers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
		var l listener
		stop := n.Listen("c", &l)
		pass(time.Second)
		stop()
		pass(linger * 3 / 4)
		if earsRunning() == 0 {
			t.Fatal("the connection is closed when the last listener has just stopped")
		}
		stop = n.Listen("d", &l) // within the time: on the same connection, and it stays
		pass(10 * linger)
		l.wants(t, "the listener", "listening", "listening")
		if got := x.dialled(); got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
		stop()
		pass(linger * 3 / 2)
		wantNoEars(t)
		if got := x.pool.ActiveCount(); got != x.pool.IdleCount() {
			t.Errorf("%d connections in use", got-x.pool.IdleCount())
		}
		stop = n.Listen("e", &l)
		synctest.Wait()
		stop()
		l.wants(t, "the listener", "listening", "listening", "listening")
		if got := x.dialled(); got != 2 {
			t.Errorf("%d connections, want 2", got)
		}
	})
}

// With a time-out shorter than the time for which the connection lingers, a listener that comes back is not deafened by it.
func TestALingeringConnectionIsPinged(t *testing.T) {
	const short = linger / 4
	inBubble(t, nil, func(t *testing.T, _ *node.Node, x *exchange) {
		n := over(t, x.pool, node.WithTimeout(short))
		var first, second listener
		stop := n.Listen("c", &first)
		pass(short / 2)
		stop()
		pass(short / 4)
		defer n.Listen("c", &second)()
		pass(10 * short)
		second.wants(t, "who comes back", "listening")
	})
}

// No method of a listener is called after its stop has returned, however many messages come.
func TestNothingIsHeardAfterStop(t *testing.T) {
	inBubble(t, answering(func(args []string) string {
		return subscriber(args) + strings.Repeat("*3\r\n"+bulk("message")+bulk("c")+bulk("0"), 500)
	}), func(t *testing.T, n *node.Node, x *exchange) {
		keep := n.Listen("c", &listener{})
		defer keep()
		for range 200 {
			l := &strict{t: t}
			stop := n.Listen("c", l)
			runtime.Gosched()
			stop()
			l.mu.Lock()
			l.over = true
			l.mu.Unlock()
			stop2 := n.Listen("d", &listener{}) // brings more messages
			stop2()
		}
		synctest.Wait()
	})
}

// strict fails its test when it hears anything once it is over.
type strict struct {
	t    *testing.T
	mu   sync.Mutex
	over bool
}

func (s *strict) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		s.t.Error("told something after stop had returned")
	}
}

func (s *strict) Listening() { s.note() }
func (s *strict) Heard()     { s.note() }
func (s *strict) Deaf()      { s.note() }
