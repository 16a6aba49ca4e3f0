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

// journal logs what becomes of a node. All that is the caller's runs in one goroutine, which is there while there is something to
// tell: a log may be slow, and may come back to the node.
type journal struct {
	node *Node

	mu      sync.Mutex
	now     standing
	told    standing
	toldAt  time.Time     // of a node that is down
	asideAt time.Time     // of a release that is set aside
	telling chan struct{} // closed when the goroutine ends; nil when there is none
}

// standing is how a node is.
type standing struct {
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

// wentDown and cameUp are called once for each change of a connection, in order, and staysDown when it was tried in vain.
func (j *journal) wentDown(err error)  { j.change(1, err) }
func (j *journal) staysDown(err error) { j.change(0, err) }
func (j *journal) cameUp()             { j.change(-1, nil) }

func (j *journal) change(down int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now.down += down
	if err != nil {
		j.now.why, j.now.refused = err.Error(), (&Error{Err: err}).Permanent()
	}
	j.startLocked()
}

// quarantined may be called again and again while a quarantine lasts.
func (j *journal) quarantined(left time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now.quarantine = time.Now().Add(left)
	j.startLocked()
}

// setAside is called once for each release that is set aside. Of many at a time the first is told.
func (j *journal) setAside(call scripts.Call, why error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := time.Now(); j.asideAt.IsZero() || now.Sub(j.asideAt) >= reasonPause {
		j.asideAt, j.now.setback = now, &setback{call, why}
		j.startLocked()
	}
}

func (j *journal) startLocked() {
	if j.telling != nil || j.node.opts.logger.Handler() == slog.DiscardHandler || j.node.isClosed() {
		return
	}
	if line := j.newsLocked(); line != nil {
		j.telling = make(chan struct{})
		go j.tell(line)
	}
}

func (j *journal) tell(line func(*slog.Logger)) {
	defer func() { // deferred, for a log that ends the goroutine
		j.mu.Lock()
		defer j.mu.Unlock()
		close(j.telling)
		j.telling = nil
		j.startLocked()
	}()
	for line != nil && !j.node.isClosed() {
		line(j.node.opts.logger.With("node", j.node.Name()))
		j.mu.Lock()
		line = j.newsLocked()
		j.mu.Unlock()
	}
}

// newsLocked returns the next line of what is not told yet, and takes it for told; nil when there is none.
func (j *journal) newsLocked() (line func(*slog.Logger)) {
	now, is, told := time.Now(), j.now, &j.told
	isDown, wasDown := is.down > 0, told.down > 0
	switch {
	case isDown && (!wasDown || is.why != told.why && now.Sub(j.toldAt) >= reasonPause):
		told.down, told.why, j.toldAt = is.down, is.why, now
		what := "quorumlock: node down"
		if is.refused {
			what = "quorumlock: node refused, which will not pass by itself"
		}
		return func(l *slog.Logger) { l.Warn(what, "error", is.why) }
	case wasDown && !isDown:
		told.down = 0
		return func(l *slog.Logger) { l.Info("quorumlock: node answers again") }
	case !isDown && is.quarantine.After(now) && is.quarantine.Sub(told.quarantine) > sameEnd:
		told.quarantine = is.quarantine
		left := is.quarantine.Sub(now).Round(time.Millisecond)
		return func(l *slog.Logger) {
			l.Warn("quorumlock: node in quarantine, it grants nothing new", "left", left.String())
		}
	case is.setback != nil:
		j.now.setback = nil
		owner, names := is.setback.call.Released()
		return func(l *slog.Logger) {
			l.Warn("quorumlock: release refused, tried again slowly", "names", names, "owner", owner, "error", is.setback.why.Error())
		}
	}
	return nil
}

// close returns a channel that is closed when nothing is told any more.
func (j *journal) close() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.telling != nil {
		return j.telling
	}
	none := make(chan struct{})
	close(none)
	return none
}
