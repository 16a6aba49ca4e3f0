//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopBound is how long a process takes at most to stop after SIGTSTP.
const stopBound = time.Second

func ownGroup() int {
	group, _ := unix.Getpgid(0) // of itself it never fails
	return group
}

// isTerminal reports whether stdin is the terminal of this process's session.
func isTerminal() bool {
	_, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGPGRP)
	return err == nil
}

// moveTerminal makes to the foreground process group of the terminal on stdin, if from is that now. It reports
// whether it did.
func moveTerminal(from, to int) bool {
	now, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGPGRP)
	return err == nil && now == from && unix.IoctlSetPointerInt(unix.Stdin, unix.TIOCSPGRP, to) == nil
}

// terminal is the terminal on stdin, if there is one. The command's group gets it whenever this process has it, so
// that the command reads from it, and its keys signal the command.
type terminal struct {
	child     *child
	continued <-chan os.Signal
}

// give gives the terminal to the command, and lets it go on.
func (t *terminal) give() {
	if moveTerminal(ownGroup(), t.child.PID) {
		t.child.signalGroup(syscall.SIGCONT) // it may have stopped because it read before
	}
	// A process that takes the terminal and is not in the foreground gets SIGTTOU. The command is
	// started before, so it does not inherit this.
	signal.Ignore(syscall.SIGTTOU)
}

func (t *terminal) takeBack() { moveTerminal(t.child.PID, ownGroup()) }

// stopped is called when the terminal, or a signal, has stopped the command. If a shell would
// then stop its job, this process stops, too: with all of its group, as by Ctrl-Z. stopped returns
// when it continues. It reports whether the command should continue.
func (t *terminal) stopped(by syscall.Signal) bool {
	if by == syscall.SIGSTOP || !isTerminal() {
		return false // what stopped the command continues it
	}
	if by != syscall.SIGTSTP && moveTerminal(ownGroup(), t.child.PID) {
		return true // it wanted the terminal, which the shell has given back since (fg of a running job)
	}
	t.child.signalGroup(syscall.SIGSTOP) // without renewal none of it may go on
	t.takeBack()
	select {
	case <-t.continued: // an old one
	default:
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	select {
	case <-t.continued:
	case <-time.After(stopBound): // there is no shell to continue it: then the kernel does not stop it, either
	}
	return true
}

// resume lets the command go on after stopped, in the foreground if this process is.
func (t *terminal) resume() {
	moveTerminal(ownGroup(), t.child.PID)
	t.child.signalGroup(syscall.SIGCONT)
}
