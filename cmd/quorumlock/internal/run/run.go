//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/quorum"
)

// Command runs a job, the arguments after --, under a lock. Its exit code is the job's, or else one of package cli.
var Command = cli.Command{
	Name: "run", Usage: "run a command while it holds the lock", Arguments: "NAME[,NAME...] -- COMMAND [ARGUMENT...]",
	Help:   help,
	Misuse: cli.ExitLockUsage, Job: true,
	Define: func(flags *cli.Flags) cli.Action {
		l := newLine(flags)
		return func(_ context.Context, p *cli.Program, args []string) int {
			if err := l.take(args, p.Job); err != nil {
				return p.Misused("run: " + cli.OneLine(err))
			}
			return l.carryOut(p.Stderr)
		}
	},
}

func (l *line) carryOut(stderr io.Writer) int {
	report := func(err error) { fmt.Fprintf(stderr, "quorumlock: run: %s\n", cli.OneLine(err)) }
	signals := catchSignals()
	defer signals.stop() // after the report, to a stderr that may be closed
	code, err := l.run(signals, report)
	if err != nil {
		code = cli.CodeOf(err, cli.ExitFailed)
		if code != cli.ExitOK { // with -E 0 a lock that is held is as well, and cron mails what is printed
			report(err)
		}
	}
	return code
}

// run takes the lock, runs the command, and returns the command's exit code. The error has its exit code. Anything
// that is no reason to fail is only reported.
func (l *line) run(signals *caught, report func(error)) (code int, err error) {
	path, err := exec.LookPath(l.command[0]) // before others wait for the lock
	if err := notStarted(l.command[0], err); err != nil {
		return 0, err
	}
	if err := l.openOwner(report); err != nil {
		return 0, err
	}
	defer l.owner.Close()
	locker, nodes, err := l.open(report)
	if err != nil {
		return 0, err
	}
	defer masters.CloseAll(nodes)
	defer locker.Close()

	lock, err := l.acquire(locker, func(ctx context.Context) error { return l.takeOwner(ctx, locker, nodes, report) }, signals.forward)
	if err != nil {
		if r := l.owner.Record(); r != nil && r.Owner == locker.ID() {
			l.owner.Remove()
		}
		return 0, l.refusal(err, nodes)
	}
	began := clock.System().Now()
	job := newJob(l, locker, lock, nodes, signals)
	status, ended, err := job.run(path)
	heldAfter := false // the command, until -min-hold is over
	if left := began.Add(l.minHold).Sub(clock.System().Now()); left > 0 && err == nil && ended == nil && !job.told {
		if heldAfter = l.wasHeld(lock); heldAfter {
			l.owner.Remove() // the rest of the period is not to be given up
			if !stay(lock, left, signals.forward) {
				return exitCodeOf(status), nil // Close leaves the lock to its lease
			}
		}
	}
	unlockErr := l.unlock(lock)
	if unlockErr == nil {
		l.owner.Remove()
	} else {
		l.owner.JobEnded()
	}
	switch {
	case err != nil:
		return 0, err
	case ended != nil:
		return 0, cli.ExitWith(cli.ExitEnded, ended)
	case errors.Is(unlockErr, quorum.ErrLost) && heldAfter:
		report(fmt.Errorf("the command has ended; its lock was lost before -min-hold was over, so another machine may run it again: %w", unlockErr))
	case errors.Is(unlockErr, quorum.ErrLost):
		return 0, cli.ExitWith(cli.ExitEnded, fmt.Errorf("the command has ended, but its lock was lost before that: %w", unlockErr))
	case unlockErr != nil:
		report(fmt.Errorf("the command has ended, but too few masters confirmed the release: %w", unlockErr))
	}
	return exitCodeOf(status), nil
}

func exitCodeOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return cli.ExitSignalled + int(status.Signal())
	}
	return status.ExitStatus()
}
