package node_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

// lateConn is a connection on which the reply to the next script comes late: for the client it
// makes no difference whether the network or its own goroutine was slow.
type lateConn struct {
	net.Conn
	by  *atomic.Int64 // nanoseconds; for the next script alone
	now time.Duration
}

func (c *lateConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("EVAL")) {
		c.now = time.Duration(c.by.Swap(0))
	}
	return c.Conn.Write(p)
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(c.now)
	c.now = 0
	return n, err
}

// twoConns is a node with two connections to a blank master, in a bubble.
type twoConns struct {
	node        *node.Node
	first, last string // keys, one for each connection
	late        atomic.Int64
	log         lines
	seen        seen
}

func openTwoConns(t *testing.T, maxLease time.Duration) *twoConns {
	t.Helper()
	two := &twoConns{first: "key"} // that of mark
	m := fakeredis.New(time.Now, 1)
	n, err := node.New(&redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		ours, theirs := net.Pipe()
		go m.Serve(theirs)
		return redis.NewConn(&lateConn{Conn: ours, by: &two.late}, timeout, timeout), nil
	}}, node.WithTimeout(timeout), node.WithName(nodeName), node.WithConns(2), node.WithMaxLease(maxLease),
		node.WithHooks(two.seen.hooks()), node.WithLogger(slog.New(slog.NewTextHandler(&two.log, nil))))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, n.Close()) })
	two.node = n
	for two.last = "a"; inside.Of(two.node).Pipe(two.last) == inside.Of(two.node).Pipe(two.first); two.last += "a" {
	}
	return two
}

// A late reply reports the quarantine that there was when the node was asked, not another one.
func TestALateReplyBeginsNoQuarantine(t *testing.T) {
	const maxLease = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		two := openTwoConns(t, maxLease)
		n := two.node
		mark(t, n)
		for _, key := range []string{two.first, two.last} {
			if r := doAt(t, n, key, acquireFor(maxLease, "k", "o:1")); !isQuarantined(r) {
				t.Fatalf("%+v: want a quarantine", r)
			}
		}
		testkit.Pass(maxLease / 2)
		two.late.Store(int64(maxLease))
		late := start(n, two.last, acquireFor(maxLease, "k", "o:1"), nil)
		testkit.Pass(maxLease/2 + time.Second)
		if got := n.State(); got != inside.Up {
			t.Errorf("when the quarantine is over the state is %v", got)
		}
		if r := await(t, late); !isQuarantined(r) {
			t.Fatalf("the late reply: %+v", r)
		}
		testkit.Pass(time.Millisecond)
		if got := n.State(); got != inside.Up {
			t.Errorf("after a late reply the state is %v", got)
		}
		testkit.Pass(2 * maxLease)
		if two.log.logged("in quarantine") != 1 || two.log.logged("its quarantine is over") != 1 || two.log.logged() != 2 {
			t.Errorf("logged %q", two.log.all)
		}
		if states := two.seen.all(); len(states) < 2 || states[0].State != inside.Up || states[1].State != inside.Quarantined ||
			len(states) > 3 || len(states) == 3 && states[2].State != inside.Up {
			t.Errorf("the hook was told %v", states)
		}
	})
}

// What one connection found before another one found something newer is not taken for news.
func TestAnOlderReadingIsDropped(t *testing.T) {
	const maxLease = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		two := openTwoConns(t, maxLease)
		n := two.node
		two.late.Store(int64(timeout * 3 / 4))
		late := start(n, two.last, acquireFor(maxLease, "k", "o:1"), nil) // its handshake finds a blank master
		testkit.Pass(timeout / 4)
		mark(t, n)
		if r := doAt(t, n, two.first, acquireFor(maxLease, "k", "o:1")); !isQuarantined(r) {
			t.Fatalf("%+v: want a quarantine", r)
		}
		if r := await(t, late); !isQuarantined(r) {
			t.Fatalf("the call on the late connection: %+v", r)
		}
		testkit.Pass(maxLease / 2)
		if got := n.State(); got != inside.Quarantined {
			t.Errorf("within the quarantine the state is %v", got)
		}
		if two.log.logged("in quarantine") != 1 || two.log.logged() != 1 {
			t.Errorf("logged %q", two.log.all)
		}
		if states := two.seen.all(); len(states) != 2 || states[1].State != inside.Quarantined {
			t.Errorf("the hook was told %v", states)
		}
	})
}
