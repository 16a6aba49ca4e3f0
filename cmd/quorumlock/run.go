//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/urfave/cli/v3"
)

// runCommand makes the command that runs a job, -- and what follows, under a lock. Its exit code is
// the job's, or else one of those in run_codes.go.
func (p *program) runCommand(job []string) *cli.Command {
	line, flags := newRunLine()
	return p.command(runName, "run a command while it holds the lock", "NAME[,NAME...] -- COMMAND [ARGUMENT...]", flags,
		exitRunUsage, func(_ context.Context, args []string) int {
			if err := line.take(args, job); err != nil {
				p.misused(runName + ": " + oneLine(err))
				return exitRunUsage
			}
			return line.carryOut(p.stderr)
		})
}

// carryOut runs the job, reports errors, and returns the exit code.
func (l *runLine) carryOut(stderr io.Writer) int {
	report := func(err error) { fmt.Fprintf(stderr, "quorumlock: run: %s\n", oneLine(err)) }
	signals := catchSignals()
	defer signals.stop() // after the report, to a stderr that may be closed
	code, err := l.run(signals, report)
	if err == nil {
		return code
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{exitFailed, err}
	}
	if exit.code != exitOK { // with -E 0 a lock that is held is as well, and cron mails what is printed
		report(err)
	}
	return exit.code
}

// run takes the lock, runs the command, and returns the command's exit code. The error is an
// *exitError. What is no reason to fail is reported.
func (l *runLine) run(signals *caught, report func(error)) (code int, err error) {
	path, err := findCommand(l.command[0]) // before others wait for the lock
	if err != nil {
		return 0, err
	}
	locker, masters, err := l.open(report)
	if err != nil {
		return 0, err
	}
	defer masters.close()
	defer locker.Close()

	lock, err := l.acquire(locker, signals.forward)
	if err != nil {
		return 0, l.refusal(err, masters)
	}
	began := clock.System().Now()
	job := newJob(l, lock, signals)
	status, ended, err := job.run(path)
	if err == nil && ended == nil && !job.told && !l.stay(lock, began, signals.forward) {
		return exitCodeOf(status), nil // Close leaves the lock to its lease
	}
	unlockErr := l.unlock(lock)
	switch {
	case err != nil:
		return 0, err
	case ended != nil:
		return 0, exitWith(exitEnded, ended)
	case errors.Is(unlockErr, quorum.ErrLost):
		return 0, exitWith(exitEnded, fmt.Errorf("the command has ended, but its lock was lost before that: %w", unlockErr))
	case unlockErr != nil:
		report(fmt.Errorf("the command has ended, but too few masters confirmed the release: %w", unlockErr))
	}
	return exitCodeOf(status), nil
}

// exitCodeOf returns the exit code of a process as a shell does.
func exitCodeOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return status.ExitStatus()
}
