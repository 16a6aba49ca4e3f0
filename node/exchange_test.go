package node_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

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

// kill closes the connections that there are.
func (x *exchange) kill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		c.Close()
	}
	x.conns = nil
}

// pass lets the bubble's time pass, and wants all that is due then done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
