package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestADeadMasterFailsAtOnceAndIsFoundAgain(t *testing.T) {
	m, n := openReal(t, node.WithTimeout(timeout))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	testkit.Must(t, m.Kill())
	mustFail(t, n, do(t, n, acquire("l", "o:2")).Err, node.ErrDown)

	// Calls continue during the outage and the recovery.
	all := stopwatch(t)
	var slowest time.Duration
	var mu sync.Mutex
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for ; ctx.Err() == nil; <-time.After(time.Millisecond) {
				began := time.Now()
				r := <-start(n, "key", acquire("m", fmt.Sprint("caller:", i)), nil)
				mu.Lock()
				slowest = max(slowest, time.Since(began))
				mu.Unlock()
				testkit.Check(t, r.Err == nil || errors.Is(r.Err, node.ErrDown), "it is not down, but: %v", r.Err)
			}
		})
	}
	testkit.Must(t, m.Start())
	began := stopwatch(t)
	testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:3"))) })
	took(t, "finding it again", began, 0, timeout)
	stop()
	running.Wait()
	_, stalled := all.Read()
	testkit.Check(t, slowest <= poll.AtMost(timeout+slack, stalled),
		"a call waited %v, with a timeout of %v; the machine stood still for %v", slowest, timeout, stalled)
}

// busyConn is a connection to a master with one processor, which all its connections share: it gets to what arrives on
// them in that order, also once the client has hung up.
type busyConn struct {
	net.Conn
	arrived chan []byte
	hangUp  func()
}

// dialBusy connects to a master. The processor has how long it takes for what is written at once; who has that value is
// served.
func dialBusy(m *fakeredis.Master, processor chan time.Duration) *busyConn {
	ours, theirs := net.Pipe()
	go m.Serve(theirs)
	over, hangUp := context.WithCancel(context.Background())
	c := &busyConn{ours, make(chan []byte, 100), hangUp} // a pipe has no buffer
	go func() {
		defer ours.Close()
		for {
			select {
			case data := <-c.arrived:
				takes := <-processor
				time.Sleep(takes)
				processor <- takes
				_, _ = ours.Write(data)
			case <-over.Done():
				if len(c.arrived) == 0 {
					return
				}
			}
		}
	}()
	return c
}

func (c *busyConn) Write(p []byte) (int, error) {
	c.arrived <- bytes.Clone(p)
	return len(p), nil
}

func (c *busyConn) Close() error {
	c.hangUp()
	return c.Conn.SetReadDeadline(time.Unix(1, 0))
}

func (c *busyConn) SetDeadline(t time.Time) error    { return c.Conn.SetReadDeadline(t) }
func (c *busyConn) SetWriteDeadline(time.Time) error { return nil }

// A master stands still, and is slow when it comes back: its clients wait longer for a turn than a call may take. All
// return, at most 10 s after the same number of plain connections: none hangs up and starts over because it has to
// wait.
func TestAllClientsReturnToASlowMaster(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	world.OneProcessor()
	synctest.Test(t, func(t *testing.T) {
		const clients, slow = 300, 3 * time.Millisecond
		m, processor := world.New(t, 1).Masters[0], make(chan time.Duration, 1)
		dial := func(context.Context, string, string) (net.Conn, error) { return dialBusy(m, processor), nil }
		nodes := make([]*node.Node, clients)
		each := func(do func(i int)) time.Duration {
			began := time.Now()
			var running sync.WaitGroup
			for i := range clients {
				running.Go(func() { do(i) })
			}
			running.Wait()
			return time.Since(began)
		}
		call := func(i int) error { return (<-start(nodes[i], "key", scripts.Look(), nil)).Err }
		processor <- 0
		for i := range nodes {
			n, err := node.Open("redis://master", node.WithName(nodeName), node.WithoutQuarantine(), node.WithDialer(dial))
			nodes[i] = untilTheEnd(t, n, err)
			testkit.Must(t, call(i))
		}
		<-processor
		processor <- slow
		plain := each(func(int) {
			c := redis.NewConn(dialBusy(m, processor), time.Minute, time.Minute)
			defer c.Close()
			_, err := c.Do("PING")
			testkit.Check(t, err == nil, "%v", err)
		})

		<-processor // the master stands still
		for range 40 {
			each(func(i int) { _ = call(i) })
			testkit.Pass(100 * time.Millisecond)
		}
		for i := range nodes {
			testkit.Equal(t, nodes[i].State(), inside.Down, "the state while the master stands still")
		}
		processor <- slow
		began, late := time.Now(), plain+10*time.Second
		for _, n := range nodes {
			for n.State() == inside.Down && time.Since(began) <= late {
				testkit.Pass(time.Millisecond)
			}
		}
		took := time.Since(began)
		t.Logf("%d clients are back after %v, as many plain connections after %v", clients, took, plain)
		testkit.Check(t, took <= late, "not all are back after %v", took)
		for i := range nodes {
			testkit.Must(t, call(i))
		}
	})
}
