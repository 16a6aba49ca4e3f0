//go:build unix

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/launch"
)

// notStarted adds the exit code to the reason why a command has not been started, if there is one.
func notStarted(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return cli.ExitWith(cli.ExitNotFound, fmt.Errorf("%q is not found", name))
	}
	if of, ok := errors.AsType[*exec.Error](err); ok { // its text has the name
		err = of.Err
	}
	return cli.ExitWith(cli.ExitNotExecutable, fmt.Errorf("%q cannot be executed: %w", name, err))
}

// child is the command: a process that leads a process group of its own, and has the standard streams of this process.
type child struct {
	*launch.Process                         // its number is its group's, too
	changes         chan syscall.WaitStatus // the process was stopped, and at last: it has ended
	watch           chan struct{}           // closed when changes is read
}

// startChild starts the process of a command, which waits for Go. The caller then reads changes, after close of watch,
// until the process has ended.
func startChild(path string, args, env []string) (*child, error) {
	c := &child{changes: make(chan syscall.WaitStatus), watch: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine. The death signal of a Linux child
		// fires when the thread that forked it ends, and Go ends threads at will.
		runtime.LockOSThread()
		var err error
		c.Process, err = launch.Start(path, args, env, childAttributes())
		started <- err
		if err == nil {
			<-c.watch
			c.sendChanges()
		}
	}()
	return c, <-started
}

// sendChanges sends the changes of the process until it has ended. As process 1 in a container, it also waits for orphans:
// only here, so that nobody else gets the status of the process.
func (c *child) sendChanges() {
	of, ended := c.PID, false
	if os.Getpid() == 1 {
		of = -1
	}
	for !ended || of == -1 {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(of, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case pid == c.PID || err != nil && !ended:
			c.changes <- status
			ended = status.Exited() || status.Signaled() || err != nil
		case err != nil:
			return // no child is left
		}
	}
}

func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(c.PID, s) }

// signalGroup sends a signal to all processes of the group. Once the process has been waited for,
// the group's number is its own only while isGroup.
func (c *child) signalGroup(s syscall.Signal) { _ = syscall.Kill(-c.PID, s) }

// end sends a signal that is to end the group. This process adopts the orphans: a dead process is in the group until
// it is waited for, and process 1 may wait late, or never.
func (c *child) end(s syscall.Signal) {
	adoptOrphans()
	c.signalGroup(s)
}

// isGroup reports whether the group has processes. The command itself has ended.
func (c *child) isGroup() bool {
	for {
		if pid, err := syscall.Wait4(-c.PID, nil, syscall.WNOHANG, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return !errors.Is(syscall.Kill(-c.PID, 0), syscall.ESRCH)
		}
	}
}

// giveTerminal gives the terminal to the command, and lets it go on.
func (c *child) giveTerminal() {
	if moveTerminal(syscall.Getpgrp(), c.PID) {
		c.signalGroup(syscall.SIGCONT) // it may have stopped because it read before
	}
	// A process that takes the terminal and is not in the foreground gets SIGTTOU. The command is
	// started before, so it does not inherit this.
	signal.Ignore(syscall.SIGTTOU)
}

func (c *child) takeTerminal() { moveTerminal(c.PID, syscall.Getpgrp()) }

// stopped is called when the terminal, or a signal, has stopped the command. If a shell would
// then stop its job, this process stops, too: with all of its group, as by Ctrl-Z. stopped returns
// when it continues. It reports whether the command should continue.
func (c *child) stopped(by syscall.Signal, continued <-chan os.Signal) bool {
	if by == syscall.SIGSTOP || !isTerminal() {
		return false // what stopped the command continues it
	}
	if by != syscall.SIGTSTP && moveTerminal(syscall.Getpgrp(), c.PID) {
		return true // it wanted the terminal, which the shell has given back since (fg of a running job)
	}
	c.signalGroup(syscall.SIGSTOP) // without renewal none of it may go on
	c.takeTerminal()
	select {
	case <-continued: // an old one
	default:
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	select {
	case <-continued:
	case <-time.After(stopBound): // there is no shell to continue it: then the kernel does not stop it, either
	}
	return true
}

// resume lets the command go on after stopped, in the foreground if this process is.
func (c *child) resume() {
	moveTerminal(syscall.Getpgrp(), c.PID)
	c.signalGroup(syscall.SIGCONT)
}
