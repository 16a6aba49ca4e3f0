//go:build unix

package run

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

const (
	// maxSleep bounds the sleep between two looks at the clock. Timers do not count the time in
	// which the machine is suspended, and a deadline may move ahead.
	maxSleep = time.Second
	// groupPoll is the pause between two looks at a process group that is ending.
	groupPoll = 10 * time.Millisecond
	// groupBound is how long the last processes of a group may take to die of SIGKILL.
	groupBound = time.Second
)

type job struct {
	line    *line
	locker  *quorum.Locker
	lock    *quorum.Lock
	nodes   []*node.Node
	signals *caught
	clock   clock.Clock
	child   *child

	maxHoldEnd clock.Instant // the end of time for none
	end        clock.Instant // of the grace; the end of time before it has begun
	ended      error         // why the command was told to end; nil if it was not
	killed     bool
	told       bool // a signal that ends programs was forwarded
}

const endOfTime clock.Instant = math.MaxInt64

func newJob(line *line, locker *quorum.Locker, lock *quorum.Lock, nodes []*node.Node, signals *caught) *job {
	j := &job{line: line, locker: locker, lock: lock, nodes: nodes, signals: signals, clock: clock.System(),
		maxHoldEnd: endOfTime, end: endOfTime}
	if line.maxHold > 0 {
		j.maxHoldEnd = j.clock.Now().Add(line.maxHold)
	}
	return j
}

// run starts the command and waits for its end. ended says why run ended it, if it did. err has its
// exit code: the command was not started.
func (j *job) run(path string) (status syscall.WaitStatus, ended, err error) {
	select {
	case s := <-j.signals.forward: // as the lock was acquired
		signal := s.(syscall.Signal)
		return status, nil, cli.ExitWith(cli.ExitSignalled+int(signal), interrupted{signal})
	default:
	}
	j.line.owner.Bequeath()
	j.child, err = startChild(path, j.line.command, j.environment())
	if err != nil {
		return status, nil, cli.ExitWith(cli.ExitNotExecutable, fmt.Errorf("the command was not started: %w", err))
	}
	err = j.begin()
	close(j.child.watch)
	if err != nil {
		j.child.signalGroup(syscall.SIGKILL)
		for status := range j.child.changes {
			if !status.Stopped() {
				break
			}
		}
		return status, nil, err
	}
	j.child.giveTerminal()
	status = j.follow()
	j.child.takeTerminal()
	j.endGroup()
	return status, j.ended, nil
}

// begin has the process that was started become the command, once its group is in the owner file. err has its exit code.
func (j *job) begin() error {
	r := j.line.record
	r.Owner, r.Job = j.lock.Owner(), ownerfile.JobOf(j.child.PID)
	if slots := j.lock.Slots(); slots != nil {
		r.Slot = slots[0]
	}
	if err := j.line.owner.Write(r); err != nil {
		return cli.ExitWith(cli.ExitConfiguration, fmt.Errorf("the command was not started: the owner file: %w", err))
	}
	if j.left() <= 0 { // this process was halted, or the disk was slow
		return cli.ExitWith(cli.ExitEnded, fmt.Errorf("the command was not started: %w", j.why()))
	}
	return notStarted(j.line.command[0], j.child.Go())
}

// left returns how long the command may go on. Renewal moves it, until the grace has begun. It is
// not positive for a lock that is lost.
func (j *job) left() time.Duration {
	now := j.clock.Now()
	return min(time.Until(j.lock.Deadline()), j.maxHoldEnd.Sub(now), j.end.Sub(now))
}

func (j *job) environment() []string {
	set := []string{
		"QUORUMLOCK_NAMES=" + strings.Join(j.line.names, ","),
		fmt.Sprintf("QUORUMLOCK_TOKEN=%d", j.lock.Token()),
		"QUORUMLOCK_OWNER=" + j.lock.Owner(),
		fmt.Sprintf("QUORUMLOCK_DEADLINE=%d", time.Now().Add(j.left()).Unix()),
	}
	if slots := j.lock.Slots(); slots != nil {
		set = append(set, fmt.Sprintf("QUORUMLOCK_SLOT=%d", slots[0]))
	}
	outer := slices.DeleteFunc(os.Environ(), func(variable string) bool { // the command may run in a command of quorumlock run
		name, _, _ := strings.Cut(variable, "=")
		replaces := func(one string) bool { return strings.HasPrefix(one, name+"=") }
		return name == "QUORUMLOCK_SLOT" || name == masters.URLsVariable && j.line.hideURLs || slices.ContainsFunc(set, replaces)
	})
	return append(outer, set...)
}

func (j *job) follow() syscall.WaitStatus {
	lost := j.lock.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	resume := false
	for {
		// First: this process may have been stopped, and another may hold the lock.
		wait := j.enforce()
		if resume {
			j.child.resume()
			resume = false
		}
		timer.Reset(wait)
		select {
		case status := <-j.child.changes:
			if !status.Stopped() {
				return status
			}
			resume = j.child.stopped(status.StopSignal(), j.signals.continued)
		case s := <-j.signals.forward:
			j.forward(s.(syscall.Signal))
		case <-lost:
			lost = nil
		case <-timer.C:
		}
	}
}

// forward passes a signal on. Signals that end programs go to the whole group, as from a terminal. Another signal has
// a meaning for the one program only, and would end its helpers.
func (j *job) forward(s syscall.Signal) {
	if s == syscall.SIGUSR1 || s == syscall.SIGUSR2 {
		j.child.signal(s)
	} else {
		j.told = true
		j.child.signalGroup(s)
	}
}

// enforce ends the command when its time is over: it gets SIGTERM when the grace is left, and
// SIGKILL when nothing is. It returns when to look again.
func (j *job) enforce() time.Duration {
	left := j.left()
	switch {
	case j.killed:
		return maxSleep
	case left <= 0:
		j.kill()
		return maxSleep
	case j.ended != nil:
		return min(left, maxSleep)
	case left <= j.line.grace:
		why := j.why()
		j.ended, j.end = fmt.Errorf("%w: the command got SIGTERM", why), j.clock.Now().Add(left)
		if errors.Is(why, errNotRenewed) {
			j.ended = fmt.Errorf("%w%s", j.ended, j.silent(inside.Of(j.locker).LastErrors(j.lock)))
		}
		j.child.end(syscall.SIGTERM)
		j.child.signalGroup(syscall.SIGCONT) // a stopped process does not end
		return left
	}
	return min(left-j.line.grace, maxSleep)
}

func (j *job) kill() {
	j.child.end(syscall.SIGKILL)
	j.killed = true
	j.ended = fmt.Errorf("%w: the command was killed", j.why())
}

func (j *job) why() error {
	lost := j.lock.Err()
	switch {
	case lost != nil:
		return fmt.Errorf("the lock is lost: %w", lost)
	case j.maxHoldEnd.Sub(j.clock.Now()) <= j.line.grace:
		return fmt.Errorf("the lock was held for -max-hold %v", j.line.maxHold)
	}
	return errNotRenewed
}

var errNotRenewed = errors.New("the lock was about to be lost: too few masters renewed it")

// silent says why masters did not renew the lock: because they are down, or by their last replies about it.
func (j *job) silent(said []error) string {
	var groups plain.Grouped
	for i, n := range j.nodes {
		err := said[i]
		if down := n.LastError(); down != nil && (n.State() == inside.Down || n.State() == inside.Refused) {
			err = down
		}
		if err != nil {
			groups.Add(n.Name(), masters.Reason(err))
		}
	}
	if len(groups) == 0 {
		return fmt.Sprintf("; no master is down, or refuses: is the lease of %v too short?", j.line.lease)
	}
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "; %s: %s", g, g.Reason)
	}
	return b.String()
}

// endGroup ends the rest of the group after the command, if run has ended the command, or its time is over. Otherwise
// processes that the command has left behind go on.
func (j *job) endGroup() {
	if !j.killed && j.left() <= 0 {
		j.kill()
	}
	if j.ended == nil {
		return
	}
	poll := time.Tick(groupPoll)
	bound := j.clock.Now().Add(groupBound)
	for j.child.isGroup() {
		if !j.killed {
			j.enforce()
			bound = j.clock.Now().Add(groupBound)
		} else if bound.Before(j.clock.Now()) {
			return
		}
		select {
		case <-poll:
		case s := <-j.signals.forward:
			j.forward(s.(syscall.Signal))
		}
	}
}
