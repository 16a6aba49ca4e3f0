package quorumtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// server is one master, and the way to it.
type server struct {
	*fakeredis.Master
	address  string
	listener net.Listener // nil in a bubble
	serving  sync.WaitGroup

	mu     sync.Mutex
	isCut  bool                  // by the test
	isDown bool                  // by a fault of Explore
	conns  map[net.Conn]struct{} // the master's ends
}

// startServer starts master i. Outside a bubble it listens at a port of its own.
func startServer(i int, now func() time.Time) (*server, error) {
	s := &server{Master: fakeredis.New(now, uint64(i+1)), conns: map[net.Conn]struct{}{}}
	if inBubble() {
		s.address = fmt.Sprintf("master-%d.test:6379", i)
		return s, nil
	}
	var err error
	if s.listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.address = s.listener.Addr().String()
	s.serving.Go(s.accept)
	return s, nil
}

// Go seeds its source of randomness when it is first read. In FIPS mode it measures then how long instructions take, and in
// a bubble they take no time.
var _ = rand.Text()

// inBubble reports whether the caller is in a testing/synctest bubble, where time begins with the
// year 2000. A listener would keep the bubble's time from passing.
func inBubble() bool { return time.Now().Year() < 2020 }

// checkBubble fails the test that uses masters in a bubble in which they were not started: otherwise Go's runtime ends the program.
func (f *fleet) checkBubble() {
	f.starter.Helper()
	if inBubble() && f.servers[0].listener != nil {
		f.starter.Fatalf("quorumtest: the masters were started outside this testing/synctest bubble: call Start in it")
	}
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // probably out of file descriptors
			continue
		}
		if s.serve(conn) != nil {
			conn.Close()
		}
	}
}

// serve serves a connection in a goroutine, or refuses it.
func (s *server) serve(conn net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isCut {
		return syscall.ECONNREFUSED
	}
	s.conns[conn] = struct{}{}
	s.serving.Go(func() {
		s.Serve(conn)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	})
	return nil
}

// cut ends the connections, and refuses new ones until reconnect.
func (s *server) cut()       { s.setOff(&s.isCut, true) }
func (s *server) reconnect() { s.setOff(&s.isCut, false) }

func (s *server) setOff(which *bool, off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*which = off
	for conn := range s.conns {
		if off {
			conn.Close()
		}
	}
}

func (s *server) cutOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isCut || s.isDown
}

// forget restarts the master without its data.
func (s *server) forget() {
	s.Crash(fakeredis.Nothing)
	s.Start()
}

// stop returns when no goroutine of the master runs.
func (s *server) stop() {
	s.cut()
	if s.listener != nil {
		s.listener.Close()
	}
	s.serving.Wait()
}

// sharedTime is the masters' time.
type sharedTime struct {
	began time.Time

	mu    sync.Mutex // while it is held, no script starts
	ahead time.Duration
}

func (t *sharedTime) now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.began.Add(time.Since(t.began) + t.ahead)
}

// advance calls others, which moves the clocks that count on the masters'. No script starts between
// the two.
func (t *sharedTime) advance(d time.Duration, others func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	others()
	t.ahead += d
}
