package node_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/node"
)

// maxDials bounds how often a node that backs off, up to 250 ms on average, may connect in a time.
func maxDials(d time.Duration) int { return 10 + int(d/(125*time.Millisecond)) }

// fewDials lets the time pass, and wants the node to have gone on trying, but not in haste.
func fewDials(t *testing.T, x *exchange, d time.Duration) {
	t.Helper()
	before := x.dialled()
	pass(d)
	if got := x.dialled() - before; got < 2 || got > maxDials(d) {
		t.Errorf("%d connections in %v, want 2 to %d", got, d, maxDials(d))
	}
}

func TestAKilledConnectionIsMadeAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
		var l, other listener
		defer n.Listen("c", &l)()
		defer n.Listen("d", &other)()
		synctest.Wait()
		x.kill()
		synctest.Wait()
		l.wants(t, "the listener", "listening", "deaf")
		pass(time.Second)
		l.wants(t, "the listener", "listening", "deaf", "listening")
		other.wants(t, "the other", "listening", "deaf", "listening")
		x.do(t, "PUBLISH", "c", "0")
		l.wants(t, "the listener", "listening", "deaf", "listening", "heard")
		if got := x.dialled(); got != 2 {
			t.Errorf("%d connections, want 2", got)
		}
	})
}

func TestListeningToADeadMaster(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
		x.setDead(true)
		var l listener
		stop := n.Listen("c", &l)
		fewDials(t, x, 20*time.Second)
		l.wants(t, "the listener")
		stop()
		synctest.Wait()
		wantNoEars(t) // at once

		stop = n.Listen("c", &l)
		synctest.Wait()
		x.setDead(false)
		pass(time.Second)
		l.wants(t, "the listener, of a master that is back", "listening")
		stop()
	})
}

func TestListeningToAFrozenMaster(t *testing.T) {
	inBubble(t, frozen, func(t *testing.T, n *node.Node, x *exchange) {
		var l listener
		stop := n.Listen("c", &l)
		fewDials(t, x, 20*time.Second)
		l.wants(t, "the listener")
		stop()
		pass(3 * timeout)
		wantNoEars(t)
	})
}

// The server freezes while a subscription stands: silence is found out by the pings.
func TestAMasterThatFreezes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
		var now atomic.Bool
		x.setServe(answering(func(args []string) string {
			if now.Load() {
				return silent
			}
			return subscriber(args)
		}))
		var l listener
		stop := n.Listen("c", &l)
		pass(10 * time.Second)
		l.wants(t, "the listener", "listening")
		now.Store(true)
		pass(3 * timeout)
		l.wants(t, "the listener", "listening", "deaf")
		stop()
		pass(3 * timeout)
		wantNoEars(t)
	})
}

// Who comes and goes while the master is frozen leaves nothing that grows.
func TestListenersOfAFrozenMasterComeAndGo(t *testing.T) {
	inBubble(t, frozen, func(t *testing.T, n *node.Node, x *exchange) {
		for range 100 {
			stop := n.Listen("c", &listener{})
			pass(timeout / 40)
			stop()
		}
		if got, most := x.dialled(), maxDials(100*timeout/40); got > most {
			t.Errorf("%d connections, want at most %d", got, most)
		}
		pass(3 * timeout)
		wantNoEars(t)
	})
}

func TestCloseWithListeners(t *testing.T) {
	for what, serve := range map[string]func(net.Conn){"a master": nil, "a frozen one": frozen, "a dead one": nil} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, serve, func(t *testing.T, n *node.Node, x *exchange) {
				atMost := time.Millisecond
				switch what {
				case "a frozen one":
					atMost = 2 * timeout
				case "a dead one":
					x.setDead(true)
				}
				var l listener
				stop := n.Listen("c", &l)
				pass(time.Second)
				began := time.Now()
				must(t, n.Close())
				if d := time.Since(began); d > atMost {
					t.Errorf("Close took %v, want %v at most", d, atMost)
				}
				wantNoEars(t)
				late := n.Listen("d", &l) // in vain, and harmless
				pass(time.Second)
				wantNoEars(t)
				late()
				stop()
				if what == "a master" {
					l.wants(t, "the listener", "listening", "deaf")
				}
			})
		})
	}
}

// A server that answers a subscriber with what is no answer, or with an error, is not asked in haste; nothing is left
// of the listening when nobody listens any more.
func TestHostileRepliesToASubscriber(t *testing.T) {
	noperm := "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n"
	replies := map[string]string{
		"NOPERM":                     noperm,
		"an unknown command":         "-ERR unknown command\r\n",
		"a number":                   ":1\r\n",
		"OK":                         "+OK\r\n",
		"null":                       "*-1\r\n",
		"an empty array":             "*0\r\n",
		"an array of numbers":        "*3\r\n:1\r\n:2\r\n:3\r\n",
		"another array":              "*3\r\n" + bulk("psubscribe") + bulk("c") + ":1\r\n",
		"an array of arrays":         "*2\r\n*1\r\n$1\r\nc\r\n*0\r\n",
		"a message of nothing":       "*1\r\n" + bulk("message"),
		"a null channel":             "*3\r\n" + bulk("subscribe") + "$-1\r\n:1\r\n",
		"nobody's channel":           "*3\r\n" + bulk("subscribe") + bulk("x") + ":1\r\n",
		"more replies than requests": strings.Repeat("*3\r\n"+bulk("unsubscribe")+bulk("x")+":0\r\n", 5),
		"pongs":                      strings.Repeat("+PONG\r\n", 5),
	}
	for what, reply := range garbage {
		if !strings.HasPrefix(what, "a huge") { // a pool of the caller's allocates what is announced
			replies[what] = reply
		}
	}
	for what, reply := range replies {
		t.Run(what, func(t *testing.T) {
			inBubble(t, answering(func([]string) string { return reply }), func(t *testing.T, n *node.Node, x *exchange) {
				var l listener
				stop := n.Listen("c", &l)
				before := x.dialled()
				pass(20 * time.Second)
				if got := x.dialled() - before; got > maxDials(20*time.Second) {
					t.Errorf("%d connections in 20s", got)
				}
				l.wants(t, "the listener")
				stop()
				pass(3*timeout + linger)
				wantNoEars(t)
			})
		})
	}
}

// Who may not listen to a channel does not deafen others, and is let in once he may.
func TestASubscriptionThatIsRefused(t *testing.T) {
	var allowed atomic.Bool
	inBubble(t, answering(func(args []string) string {
		if len(args) > 1 && args[1] == "secret" && !allowed.Load() {
			return "-NOPERM no\r\n"
		}
		return subscriber(args)
	}), func(t *testing.T, n *node.Node, x *exchange) {
		var l, refused listener
		defer n.Listen("c", &l)()
		stop := n.Listen("secret", &refused)
		pass(20 * time.Second)
		stop()
		synctest.Wait()
		stop = n.Listen("secret", &refused)
		pass(20 * time.Second)
		refused.wants(t, "who may not")
		allowed.Store(true)
		pass(2 * timeout)
		refused.wants(t, "who may now", "listening")
		stop()
		l.wants(t, "who always might", "listening")
		if got := x.dialled(); got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
	})
}

// An answer to nothing is as good as garbage, also when those before it were right.
func TestAnswersThatComeTwice(t *testing.T) {
	inBubble(t, answering(func(args []string) string { return strings.Repeat(subscriber(args), 2) }), func(t *testing.T, n *node.Node, x *exchange) {
		stop := n.Listen("c", &listener{})
		fewDials(t, x, 20*time.Second)
		stop()
		pass(3 * timeout)
		wantNoEars(t)
	})
}

// A server that lets subscribers in and throws them out again.
func TestAServerThatHangsUpOnSubscribers(t *testing.T) {
	inBubble(t, answering(func(args []string) string {
		if args[0] == "PING" {
			return hangUp
		}
		return subscriber(args)
	}), func(t *testing.T, n *node.Node, x *exchange) {
		stop := n.Listen("c", &listener{})
		fewDials(t, x, 20*time.Second)
		stop()
		pass(linger)
		wantNoEars(t)
	})
}

// A pool that has no connection to spare leaves the node deaf, and otherwise as it is.
func TestAPoolTooSmallToListen(t *testing.T) {
	for _, wait := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
			x.pool.MaxActive, x.pool.Wait = 1, wait
			mustGrant(t, <-start(n, "key", acquire("k", "o:1"), nil))
			var l listener
			stop := n.Listen("c", &l)
			pass(20 * time.Second)
			l.wants(t, "the listener")
			if r := <-start(n, "key", release("k", "o:1"), nil); r.Err != nil {
				t.Error(r.Err)
			}
			stop()
			pass(2 * timeout)
			wantNoEars(t)
		})
	}
}

// closesWithin wants Close to return in time, and nothing to listen any more.
func closesWithin(t *testing.T, n *node.Node, bound time.Duration) {
	t.Helper()
	began := time.Now()
	must(t, n.Close())
	if d := time.Since(began); d > bound {
		t.Errorf("Close took %v, want %v at most", d, bound)
	}
	synctest.Wait()
	wantNoEars(t)
}

// Messages that go on coming keep no closed node's connection. Found by the simulation, with seed 18121.
func TestCloseWhileMessagesCome(t *testing.T) {
	talkative := func(c net.Conn) {
		ended := make(chan struct{})
		var talking sync.WaitGroup
		talking.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(timeout / 2):
					io.WriteString(c, "*3\r\n"+bulk("message")+bulk("c")+bulk("0"))
				}
			}
		})
		answering(func(args []string) string {
			if args[0] == "PING" {
				return silent
			}
			return subscriber(args)
		})(c)
		close(ended)
		talking.Wait()
	}
	inBubble(t, talkative, func(t *testing.T, n *node.Node, x *exchange) {
		defer n.Listen("c", &listener{})()
		pass(timeout / 4)
		closesWithin(t, n, timeout)
	})
}

// A connection for messages that is made when the node has been closed is not used.
func TestCloseWhileConnectingForMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		ours, theirs := net.Pipe()
		defer theirs.Close()
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { <-free; return redis.NewConn(ours, timeout, timeout), nil }}
		defer pool.Close()
		n := over(t, pool)
		defer n.Listen("c", &listener{})()
		synctest.Wait()
		time.AfterFunc(timeout/2, func() { close(free) })
		go frozen(theirs)
		closesWithin(t, n, timeout)
	})
}

// A pool whose dials hang whatever the context says.
func TestADialForListeningThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		n := over(t, &redis.Pool{Dial: func() (redis.Conn, error) { <-free; return nil, net.ErrClosed }})
		stop := n.Listen("c", &listener{})
		pass(time.Second)
		stop()
		began := time.Now()
		must(t, n.Close())
		if d := time.Since(began); d > 2*timeout {
			t.Errorf("Close took %v", d)
		}
		close(free)
		synctest.Wait()
		wantNoEars(t)
	})
}
