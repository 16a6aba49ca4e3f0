//go:build unix

package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// stopBound is how long a process takes at most to stop after SIGTSTP.
const stopBound = time.Second

// isTerminal reports whether stdin is the terminal of this process's session.
func isTerminal() bool {
	_, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGPGRP)
	return err == nil
}

// moveTerminal makes to the foreground process group of the terminal on stdin, if from is that now. It reports whether it
// did. The command's group gets the terminal whenever this process has it, so that the command reads from it, and its keys
// signal the command.
func moveTerminal(from, to int) bool {
	now, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGPGRP)
	return err == nil && now == from && unix.IoctlSetPointerInt(unix.Stdin, unix.TIOCSPGRP, to) == nil
}
