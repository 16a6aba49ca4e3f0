package redistest

import (
	"crypto/fips140"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
)

// embedded is a miniredis inside this process, a new one after each kill.
type embedded struct {
	addr string
	life *embeddedLife // nil while killed
}

func (e *embedded) start() error {
	if e.life != nil {
		return errRunning
	}
	life, err := newEmbeddedLife(e.addr)
	if err != nil {
		return err
	}
	e.life = life
	return nil
}

func (e *embedded) kill() error {
	if e.life == nil {
		return errNotRunning
	}
	err := e.life.end()
	e.life = nil
	return err
}

func (e *embedded) freeze() error { return ErrEmbedded }
func (e *embedded) thaw() error   { return ErrEmbedded }
func (e *embedded) remove() error { return nil }

// embeddedLife is one miniredis from its start to its crash.
type embeddedLife struct {
	mini     *miniredis.Miniredis
	info     serverInfo
	listener net.Listener
	accepted chan struct{} // closed when accept has returned
	clock    sync.Mutex    // locked while the server's clock moves
}

// newEmbeddedLife starts a miniredis that serves connections from a listener of our own. Miniredis'
// own listener opens before its commands are registered and before a hook can be set: a client that
// keeps redialling would get "unknown command" after a restart.
func newEmbeddedLife(addr string) (*embeddedLife, error) {
	if fips140.Enforced() {
		return nil, errors.New("an embedded master names scripts by their SHA-1, which GODEBUG=fips140=only forbids")
	}
	listener, err := net.Listen("tcp4", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %w", errAddressTaken, err)
	}
	if err != nil {
		return nil, err
	}
	l := &embeddedLife{
		mini:     miniredis.NewMiniRedis(),
		info:     newServerInfo(listener.Addr().(*net.TCPAddr).Port),
		listener: listener,
		accepted: make(chan struct{}),
	}
	l.mini.ClockTTL(true)
	conn, err := l.mini.Dial() // starts it without a listener
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	l.mini.Server().SetPreHook(l.before)
	go l.accept()
	return l, conn.Close()
}

const acceptRetry = 10 * time.Millisecond

func (l *embeddedLife) accept() {
	defer close(l.accepted)
	for {
		conn, err := l.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptRetry) // probably out of file descriptors
		default:
			l.mini.Server().ServeConn(conn) // which does not block
		}
	}
}

// end cuts all connections and returns when no goroutine of this life runs.
func (l *embeddedLife) end() error {
	err := l.listener.Close()
	<-l.accepted
	l.mini.CtxCancel() // ends BLPOP and its like; the next call waits for them
	// Before Miniredis.Close, which takes the server away from running scripts: their clients would
	// get an error reply, and a crash gives none.
	l.mini.Server().Close()
	l.mini.Close()
	return err
}

// before runs ahead of each command, also of those that scripts call. It reports whether it
// answered the command.
func (l *embeddedLife) before(peer *miniserver.Peer, command string, _ ...string) bool {
	switch command {
	case "INFO":
		peer.WriteBulk(l.info.text())
		return true
	case "EVAL", "EVALSHA":
		l.advance()
	default:
		// A script's call comes while the server is locked. It must neither wait for that lock nor
		// move the clock. (EVAL is never such a call: Redis forbids it in a script.) Another
		// client's command that finds the lock taken looks the same, and does not move the clock
		// either: the clock was moved just before.
		if l.mini.TryLock() {
			l.mini.Unlock()
			l.advance()
		}
	}
	return false
}

// advance moves the server's clock, by which keys expire, to now. Between two calls the clock
// stands still, so no key expires in the middle of a script: the lock scripts rely on that, as on
// Redis. A script starts with the clock at or after the moment its client sent it, so no lease ends
// sooner than the client counts on.
func (l *embeddedLife) advance() {
	// Two concurrent calls could otherwise set their times in the wrong order, and miniredis would
	// subtract the time between them from every TTL twice.
	l.clock.Lock()
	defer l.clock.Unlock()
	l.mini.SetTime(time.Now())
}
