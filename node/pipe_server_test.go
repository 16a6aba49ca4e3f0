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

// pipeServer serves a pool over net.Pipe connections, inside a synctest bubble.
type pipeServer struct {
	pool    *redis.Pool
	serving sync.WaitGroup

	mu    sync.Mutex
	serve func(net.Conn)
	dead  bool
	dials int
	conns []net.Conn // the server's ends
}

func (p *pipeServer) dial(context.Context) (redis.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials++
	if p.dead {
		return nil, errors.New("no server")
	}
	return p.connectLocked(), nil
}

func (p *pipeServer) connectLocked() redis.Conn {
	ours, theirs := net.Pipe()
	p.conns = append(p.conns, theirs)
	serve := p.serve
	p.serving.Go(func() { serve(theirs) })
	return redis.NewConn(ours, timeout, timeout)
}

// kill closes the open connections.
func (p *pipeServer) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// pass lets the bubble's time pass, and waits until all that is due is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
