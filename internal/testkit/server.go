package testkit

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Server serves connections in memory, for a test in a bubble of testing/synctest.
type Server struct {
	Pool    *redis.Pool   // of connections to it, which keeps one
	Timeout time.Duration // of those connections
	serving sync.WaitGroup

	mu    sync.Mutex
	serve func(net.Conn)
	dead  bool
	dials int
	conns []net.Conn // the server's ends
}

// NewServer returns a server that ends with the test.
func NewServer(t testing.TB, timeout time.Duration, serve func(net.Conn)) *Server {
	s := &Server{serve: serve, Timeout: timeout}
	s.Pool = &redis.Pool{MaxIdle: 1, DialContext: s.dial}
	t.Cleanup(func() {
		s.Kill()
		s.serving.Wait()
		Must(t, s.Pool.Close())
	})
	return s
}

func (s *Server) dial(context.Context) (redis.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	if s.dead {
		return nil, syscall.ECONNREFUSED
	}
	return s.connectLocked(), nil
}

func (s *Server) connectLocked() redis.Conn {
	ours, theirs := net.Pipe()
	s.conns = append(s.conns, theirs)
	serve := s.serve
	s.serving.Go(func() { serve(theirs) })
	return redis.NewConn(ours, s.Timeout, s.Timeout)
}

// Connect returns a connection that is not from Pool.
func (s *Server) Connect() redis.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connectLocked()
}

// Kill closes the open connections.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// SetDead says whether the server refuses new connections.
func (s *Server) SetDead(dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = dead
}

// SetServe replaces what serves new connections.
func (s *Server) SetServe(serve func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve = serve
}

// Dialled returns how many connections the pool has tried.
func (s *Server) Dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// Pass lets the bubble's time pass, and waits until all that is due is done.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Bubble runs a part of a test in a bubble.
func Bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
