package node

import (
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/scripts"
	"golang.org/x/sync/errgroup"
)

const (
	// reasonPause is for how long the log stays silent about a node that is down and up again; about
	// another reason why it is down, which may change with every probe; about another release that was
	// refused; and about the refusal of this client's list.
	reasonPause = 10 * time.Second
	// sameEnd is by how much two readings of one quarantine's end may differ.
	sameEnd = 100 * time.Millisecond
)

// stateLog logs a node's changes of state. The user's logger runs in a goroutine, which lives while
// there is something to log: a logger may block, or call back.
type stateLog struct {
	logger  *slog.Logger // nil for slog.Default, as it is then
	name    func() string
	group   *errgroup.Group  // of the node
	changed func(StateEvent) // posts the hook's call; nil for none

	mu           sync.Mutex
	current      nodeState
	logged       nodeState
	told         string // the state that changed was last called with
	downLoggedAt time.Time
	refusedAt    time.Time   // of the last refused release that was to be logged
	listsAt      time.Time   // of the last refused list that was to be logged
	ends         *time.Timer // of the current quarantine; nil before the first one
	running      bool
	closed       bool
}

// nodeState is what the log may say of a node.
type nodeState struct {
	down       int             // how many of its connections are down
	why        string          // the latest reason
	err        error           // why, as an error
	permanent  bool            // that reason does not pass by itself
	connected  bool            // at least once
	quarantine time.Time       // its end, at the latest
	asked      time.Time       // when the node was asked for it
	refused    *refusedRelease // not logged yet
	lists      error           // the node refuses this client's list of masters; not logged yet
}

// refusedRelease is a release that the server itself refused.
type refusedRelease struct {
	call scripts.Call
	err  error
}

// Down, StillDown and Up take the changes of one connection, in order: see [pipeline.Log].
func (l *stateLog) Down(err error)      { l.change(1, err) }
func (l *stateLog) StillDown(err error) { l.change(0, err) }
func (l *stateLog) Up()                 { l.change(-1, nil) }

func (l *stateLog) change(down int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.down += down
	if err != nil {
		l.current.why, l.current.err, l.current.permanent = plain.Text(err.Error()), plain.Wrap(err), (&Error{Err: err}).Permanent()
	}
	l.tellLocked()
	l.startLocked()
}

// Quarantined is called for each new connection, and repeatedly during one quarantine.
func (l *stateLog) Quarantined(q pipeline.Quarantine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.connected = true
	l.readQuarantineLocked(q)
	l.tellLocked()
	l.startLocked()
}

// readQuarantineLocked takes a reading. The quarantine that it found ends between q.Asked+q.Left and
// q.Came+q.Left. Another one has begun only if all of that is later than the end known so far: a
// goroutine that was late makes no second quarantine out of the first.
func (l *stateLog) readQuarantineLocked(q pipeline.Quarantine) {
	if q.Asked.Before(l.current.asked) { // another connection has found something newer
		return
	}
	l.current.asked = q.Asked
	end := q.Came.Add(q.Left)
	isSame := !q.Asked.Add(q.Left).After(l.current.quarantine.Add(sameEnd))
	if isSame && !end.Before(l.current.quarantine) {
		return
	}
	l.current.quarantine = end
	left := time.Until(end)
	switch {
	case left <= 0:
	case l.ends == nil:
		l.ends = time.AfterFunc(left, l.quarantineOver)
	default:
		l.ends.Reset(left)
	}
}

func (l *stateLog) quarantineOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.startLocked()
}

// state returns the node's state.
func (l *stateLog) state() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stateLocked(time.Now())
}

func (l *stateLog) stateLocked(now time.Time) string {
	switch s := &l.current; {
	case s.down > 0 && s.permanent:
		return inside.Refused
	case s.down > 0:
		return inside.Down
	case s.quarantine.After(now):
		return inside.Quarantined
	case s.connected:
		return inside.Up
	default:
		return inside.Unknown
	}
}

// tellLocked passes a change of the state to the hook.
func (l *stateLog) tellLocked() {
	now := time.Now()
	state := l.stateLocked(now)
	if l.changed == nil || state == l.told {
		return
	}
	l.told = state
	e := StateEvent{Node: l.name(), State: state}
	switch state {
	case inside.Quarantined:
		e.Quarantine = l.current.quarantine.Sub(now)
	case inside.Down, inside.Refused:
		e.Err = l.current.err
	}
	l.changed(e)
}

// ReleaseRefused is called once for each release that the server refused. It logs at most one for each
// reasonPause.
func (l *stateLog) ReleaseRefused(call scripts.Call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.refusedAt.IsZero() || now.Sub(l.refusedAt) >= reasonPause {
		l.refusedAt, l.current.refused = now, &refusedRelease{call, err}
		l.startLocked()
	}
}

// NotAccepted logs a node that refuses this client's list of masters, at most once for each
// reasonPause. A blank node is about to be marked.
func (l *stateLog) NotAccepted(list *scripts.List, marker scripts.Refusal) {
	view := membership.ReadRefusal(marker)
	if view.Standing(list) != membership.Refuses {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.listsAt.IsZero() || now.Sub(l.listsAt) >= reasonPause {
		l.listsAt, l.current.lists = now, view.Refusal(list)
		l.startLocked()
	}
}

// currentLogger returns the logger. A program may set the default one after it has opened its
// nodes.
func (l *stateLog) currentLogger() *slog.Logger {
	if l.logger != nil {
		return l.logger
	}
	return slog.Default()
}

func (l *stateLog) startLocked() {
	if l.running || l.closed || l.currentLogger().Handler() == slog.DiscardHandler {
		return
	}
	if line := l.nextLineLocked(); line != nil {
		l.running = true
		l.group.Go(func() error {
			l.run(line)
			return nil
		})
	}
}

func (l *stateLog) run(line func(*slog.Logger)) {
	defer func() { // deferred, for a logger that ends the goroutine
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running = false
		l.startLocked()
	}()
	for line != nil {
		line(l.currentLogger().With("node", l.name()))
		l.mu.Lock()
		line = l.nextLineLocked()
		l.mu.Unlock()
	}
}

// nextLineLocked returns the next line to log, and counts it as logged; nil when there is none.
func (l *stateLog) nextLineLocked() (line func(*slog.Logger)) {
	if l.closed {
		return nil
	}
	now, current, logged := time.Now(), l.current, &l.logged
	isDown, wasDown := current.down > 0, logged.down > 0
	switch {
	case isDown && (!wasDown || current.why != logged.why) && now.Sub(l.downLoggedAt) >= reasonPause:
		logged.down, logged.why, l.downLoggedAt = current.down, current.why, now
		message := "quorumlock: node down"
		if current.permanent {
			message = "quorumlock: node refused, which will not pass by itself"
		}
		return func(logger *slog.Logger) { logger.Warn(message, "error", current.why) }
	case wasDown && !isDown:
		logged.down = 0
		return func(logger *slog.Logger) { logger.Info("quorumlock: node answers again") }
	case !isDown && current.quarantine.After(now) && current.quarantine.Sub(logged.quarantine) > sameEnd:
		logged.quarantine = current.quarantine
		left := current.quarantine.Sub(now).Round(time.Millisecond)
		return func(logger *slog.Logger) {
			logger.Warn("quorumlock: node in quarantine, it grants nothing new", "left", left.String())
		}
	case !isDown && !logged.quarantine.IsZero() && !current.quarantine.After(now):
		logged.quarantine = time.Time{}
		return func(logger *slog.Logger) { logger.Info("quorumlock: node grants again, its quarantine is over") }
	case current.lists != nil:
		l.current.lists = nil
		return func(logger *slog.Logger) {
			logger.Warn("quorumlock: node does not accept this client", "error", plain.Text(current.lists.Error()))
		}
	case current.refused != nil:
		l.current.refused = nil
		owner, names := current.refused.call.Released()
		return func(logger *slog.Logger) {
			logger.Warn("quorumlock: release refused, tried again slowly",
				"names", names, "owner", owner, "error", plain.Text(current.refused.err.Error()))
		}
	}
	return nil
}

// close ends the log. The group gets no goroutine any more.
func (l *stateLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.ends != nil {
		l.ends.Stop()
	}
}
