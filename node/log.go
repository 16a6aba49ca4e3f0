package node

import (
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// reasonPause is how long the log keeps quiet about another reason why a node is down, which may change with every probe, and
	// about another release that is set aside.
	reasonPause = 10 * time.Second
	// sameEnd is by how much the ends of one quarantine may seem to differ.
	sameEnd = 100 * time.Millisecond
)

// stateLog logs what becomes of a node. All that is the caller's runs in one goroutine, which is there while there is something to
// tell: a log may be slow, and may come back to the node.
type stateLog struct {
	node *Node

	mu      sync.Mutex
	now     nodeState
	told    nodeState
	toldAt  time.Time     // of a node that is down
	asideAt time.Time     // of a release that is set aside
	telling chan struct{} // closed when the goroutine ends; nil when there is none
}

// nodeState is how a node is.
type nodeState struct {
	down       int       // how many of its connections are
	why        string    // the last of them is
	refused    bool      // which does not pass by itself
	quarantine time.Time // its end
	setback    *setback  // a release that is set aside
}

// setback is a release that the server itself refused.
type setback struct {
	call scripts.Call
	why  error
}

// Down and Up are called once for each change of a connection, in order, and StillDown when it was tried in vain.
func (l *stateLog) Down(err error)      { l.change(1, err) }
func (l *stateLog) StillDown(err error) { l.change(0, err) }
func (l *stateLog) Up()                 { l.change(-1, nil) }

func (l *stateLog) change(down int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.down += down
	if err != nil {
		l.now.why, l.now.refused = err.Error(), (&Error{Err: err}).Permanent()
	}
	l.startLocked()
}

// Quarantined may be called again and again while a quarantine lasts.
func (l *stateLog) Quarantined(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.quarantine = time.Now().Add(left)
	l.startLocked()
}

// ReleaseRefused is called once for each release that is set aside. Of many at a time the first is told.
func (l *stateLog) ReleaseRefused(call scripts.Call, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.asideAt.IsZero() || now.Sub(l.asideAt) >= reasonPause {
		l.asideAt, l.now.setback = now, &setback{call, why}
		l.startLocked()
	}
}

func (l *stateLog) startLocked() {
	if l.telling != nil || l.node.opts.logger.Handler() == slog.DiscardHandler || l.node.isClosed() {
		return
	}
	if line := l.nextLineLocked(); line != nil {
		l.telling = make(chan struct{})
		go l.tell(line)
	}
}

func (l *stateLog) tell(line func(*slog.Logger)) {
	defer func() { // deferred, for a log that ends the goroutine
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.telling)
		l.telling = nil
		l.startLocked()
	}()
	for line != nil && !l.node.isClosed() {
		line(l.node.opts.logger.With("node", l.node.Name()))
		l.mu.Lock()
		line = l.nextLineLocked()
		l.mu.Unlock()
	}
}

// nextLineLocked returns the next line of what is not told yet, and takes it for told; nil when there is none.
func (l *stateLog) nextLineLocked() (line func(*slog.Logger)) {
	now, is, told := time.Now(), l.now, &l.told
	isDown, wasDown := is.down > 0, told.down > 0
	switch {
	case isDown && (!wasDown || is.why != told.why && now.Sub(l.toldAt) >= reasonPause):
		told.down, told.why, l.toldAt = is.down, is.why, now
		what := "quorumlock: node down"
		if is.refused {
			what = "quorumlock: node refused, which will not pass by itself"
		}
		return func(log *slog.Logger) { log.Warn(what, "error", is.why) }
	case wasDown && !isDown:
		told.down = 0
		return func(log *slog.Logger) { log.Info("quorumlock: node answers again") }
	case !isDown && is.quarantine.After(now) && is.quarantine.Sub(told.quarantine) > sameEnd:
		told.quarantine = is.quarantine
		left := is.quarantine.Sub(now).Round(time.Millisecond)
		return func(log *slog.Logger) {
			log.Warn("quorumlock: node in quarantine, it grants nothing new", "left", left.String())
		}
	case is.setback != nil:
		l.now.setback = nil
		owner, names := is.setback.call.Released()
		return func(log *slog.Logger) {
			log.Warn("quorumlock: release refused, tried again slowly", "names", names, "owner", owner, "error", is.setback.why.Error())
		}
	}
	return nil
}

// close returns a channel that is closed when nothing is told any more.
func (l *stateLog) close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.telling != nil {
		return l.telling
	}
	none := make(chan struct{})
	close(none)
	return none
}
