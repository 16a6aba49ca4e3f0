package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// reasonPause is for how long the log stays silent about a node that is down and up again; about
	// another reason why it is down, which may change with every probe (but not about the first one of the other kind,
	// that passes by itself or does not); and after a message of logSometimes about the same.
	reasonPause = 10 * time.Second
	// sameEnd is by how much two readings of one quarantine's end may differ.
	sameEnd = 100 * time.Millisecond
)

// stateLog logs a node's changes of state. The user's logger runs in the queue's goroutine, so it may block, or call
// back.
type stateLog struct {
	logger  func() *slog.Logger
	name    func() string
	changed func(StateEvent) // posts the hook's call; nil for none
	lines   events.Queue     // bounds the lines that wait for a logger that blocks
	closed  atomic.Bool
	hazard  sync.Once

	mu         sync.Mutex
	down       int         // how many of its connections are down
	err        error       // the latest reason
	permanent  bool        // that reason does not pass by itself
	quarantine time.Time   // its end, at the latest
	asked      time.Time   // when the node was asked for it; zero before the first connection
	ends       *time.Timer // of the quarantine; nil before the first one
	told       string      // the state that changed was last called with

	downLogged       bool // and not yet that it answers again
	whyLogged        string
	unmarked         bool      // the process grants nothing until a client marks it
	quarantineLogged time.Time // and not yet that it is over
	row              int       // quarantines that were logged since the node last granted
	rowBegan         time.Time
	warnedAt         map[string]time.Time // when a message of logSometimes was last logged
}

// Down, StillDown and Up take the changes of one connection, in order: see [pipeline.Log].
func (l *stateLog) Down(err error)      { l.change(1, err) }
func (l *stateLog) StillDown(err error) { l.change(0, err) }
func (l *stateLog) Up()                 { l.change(-1, nil) }

func (l *stateLog) change(down int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down += down
	if err != nil {
		l.err, l.permanent = plain.Wrap(err), (&Error{Err: err}).Permanent()
	}
	l.noteLocked()
}

// Quarantined is called for each new connection, and repeatedly during one quarantine.
func (l *stateLog) Quarantined(q pipeline.Quarantine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readQuarantineLocked(q)
	l.noteLocked()
}

// readQuarantineLocked takes a reading. The quarantine that it found ends between q.Asked+q.Left and
// q.Came+q.Left. Another one has begun only if all of that is later than the end known so far: a
// goroutine that was late makes no second quarantine out of the first.
func (l *stateLog) readQuarantineLocked(q pipeline.Quarantine) {
	if q.Asked.Before(l.asked) { // another connection has found something newer
		return
	}
	l.asked, l.unmarked = q.Asked, q.Unmarked
	end := q.Came.Add(q.Left)
	isSame := !q.Asked.Add(q.Left).After(l.quarantine.Add(sameEnd))
	if isSame && !end.Before(l.quarantine) {
		return
	}
	l.quarantine = end
	switch {
	case l.closed.Load(): // calls that Close waits for may read one yet
	case l.ends == nil:
		l.ends = time.AfterFunc(time.Until(end), l.quarantineOver)
	default:
		l.ends.Reset(time.Until(end))
	}
}

func (l *stateLog) quarantineOver() { // no hook is called for it
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logChangesLocked(time.Now())
}

// state returns the node's state.
func (l *stateLog) state() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stateLocked(time.Now())
}

func (l *stateLog) stateLocked(now time.Time) string {
	switch {
	case l.down > 0 && l.permanent:
		return inside.Refused
	case l.down > 0:
		return inside.Down
	case l.quarantine.After(now):
		return inside.Quarantined
	case !l.asked.IsZero():
		return inside.Up
	default:
		return inside.Unknown
	}
}

// noteLocked passes a change of the state to the hook, and logs it.
func (l *stateLog) noteLocked() {
	now := time.Now()
	if state := l.stateLocked(now); l.changed != nil && state != l.told {
		l.told = state
		e := StateEvent{Node: l.name(), State: state}
		switch state {
		case inside.Quarantined:
			e.Quarantine = l.quarantine.Sub(now)
		case inside.Down, inside.Refused:
			e.Err = l.err
		}
		l.changed(e)
	}
	l.logChangesLocked(now)
}

func (l *stateLog) logChangesLocked(now time.Time) {
	isDown, isQuarantined := l.down > 0, l.quarantine.After(now)
	message := "quorumlock: node down"
	if l.permanent {
		message = "quorumlock: node refused, which will not pass by itself"
	}
	if isDown && (!l.downLogged || l.err.Error() != l.whyLogged) && l.logSometimesLocked(message, "error", l.err.Error()) {
		l.downLogged, l.whyLogged = true, l.err.Error()
	}
	if l.downLogged && !isDown {
		l.downLogged = false
		l.logLine(slog.LevelInfo, "quorumlock: node answers again")
	}
	switch {
	case isDown:
	case isQuarantined && l.quarantine.Sub(l.quarantineLogged) > sameEnd:
		l.logQuarantineLocked(now)
	case !isQuarantined && !l.unmarked && !l.quarantineLogged.IsZero():
		l.quarantineLogged, l.row = time.Time{}, 0
		l.logLine(slog.LevelInfo, "quorumlock: node grants again, its quarantine is over")
	}
}

func (l *stateLog) logQuarantineLocked(now time.Time) {
	l.quarantineLogged = l.quarantine
	left := l.quarantine.Sub(now).Round(time.Millisecond).String()
	if l.row++; l.row > 1 {
		l.logLine(slog.LevelWarn, "quorumlock: node in quarantine again, and the last one was not over",
			"times", l.row, "within", now.Sub(l.rowBegan).Round(time.Second).String(), "left", left)
		return
	}
	l.rowBegan = now
	l.logLine(slog.LevelWarn, "quorumlock: node in quarantine, it grants nothing new", "left", left)
}

// ReleaseRefused is called once for each release that the server refused.
func (l *stateLog) ReleaseRefused(call scripts.Call, err error) {
	owner, names := call.Released()
	l.logSometimes("quorumlock: release refused, tried again slowly", "names", names, "owner", owner, "error", l.text(err))
}

// Left logs that a connection was left, whose server seems to have become a replica. Where the address leads now is
// another event.
func (l *stateLog) Left(err error) {
	l.logSometimes("quorumlock: node may no longer be a master, its address is dialed again", "error", l.text(err))
}

// text is what the node's errors say of a server's error.
func (l *stateLog) text(err error) string { return (&Error{Node: l.name(), Err: err}).text() }

// Hazard logs once what makes the node unsafe.
func (l *stateLog) Hazard(text string) {
	l.hazard.Do(func() {
		l.logLine(slog.LevelWarn, "quorumlock: node has replicas that acknowledge nothing", "hazard", text)
	})
}

// NotAccepted logs a node that refuses this client's list of masters, or is being marked for another. Any other blank node
// is about to be marked.
func (l *stateLog) NotAccepted(list *scripts.List, seen scripts.Seen) {
	if view := membership.ReadRefusal(seen); view.Relation(list) == membership.Refuses || view.IsMarked() && view.HadAnother(list) {
		l.logSometimes("quorumlock: node does not accept this client", "error", plain.Text(view.Refusal(list).Error()))
	}
}

// logSometimes logs a warning at most once for each reasonPause.
func (l *stateLog) logSometimes(message string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logSometimesLocked(message, args...)
}

// logSometimesLocked is logSometimes, and reports whether it has logged.
func (l *stateLog) logSometimesLocked(message string, args ...any) bool {
	if time.Since(l.warnedAt[message]) < reasonPause {
		return false
	}
	l.warnedAt[message] = time.Now()
	l.logLine(slog.LevelWarn, message, args...)
	return true
}

func (l *stateLog) logLine(level slog.Level, message string, args ...any) {
	l.lines.Post(func() {
		if !l.closed.Load() {
			l.logger().With("node", l.name()).Log(context.Background(), level, message, args...)
		}
	})
}

// close ends the log: no line follows.
func (l *stateLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed.Store(true)
	if l.ends != nil {
		l.ends.Stop()
	}
}
