//go:build unix

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
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

// child is the command: a process that leads a process group of its own, and has the standard
// streams of this process.
type child struct {
	pid     int                     // of the process, and of its group
	changes chan syscall.WaitStatus // the process was stopped, and at last: it has ended
	watch   chan struct{}           // closed when changes is read
}

// startChild starts a command. The caller then reads changes, after close of watch, until the process has ended.
func startChild(path string, args, env []string) (*child, error) {
	c := &child{changes: make(chan syscall.WaitStatus), watch: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine. The death signal of a Linux child
		// fires when the thread that forked it ends, and Go ends threads at will.
		runtime.LockOSThread()
		var err error
		c.pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{
			Env: env, Files: []uintptr{0, 1, 2}, Sys: childAttributes(),
		})
		started <- err
		if err == nil {
			<-c.watch
			c.follow()
		}
	}()
	return c, notStarted(args[0], <-started)
}

// follow sends the changes of the process until it has ended. Process 1, as in a container, waits for orphans, too: here
// alone, so that nobody else gets the process's own status.
func (c *child) follow() {
	of, ended := c.pid, false
	if os.Getpid() == 1 {
		of = -1
	}
	for !ended || of == -1 {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(of, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case pid == c.pid || err != nil && !ended:
			c.changes <- status
			ended = status.Exited() || status.Signaled() || err != nil
		case err != nil:
			return // no child is left
		}
	}
}

// signal sends a signal to the process.
func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(c.pid, s) }

// signalGroup sends a signal to all processes of the group. Once the process has been waited for,
// the group's number is its own only while isGroup.
func (c *child) signalGroup(s syscall.Signal) { _ = syscall.Kill(-c.pid, s) }

// end sends a signal that is to end the group. This process adopts what is orphaned by it: a dead process is in the group
// until it is waited for, and init may be late, or another program that waits for none.
func (c *child) end(s syscall.Signal) {
	adoptOrphans()
	c.signalGroup(s)
}

// isGroup reports whether the group has processes. The command itself has ended.
func (c *child) isGroup() bool {
	for {
		if pid, err := syscall.Wait4(-c.pid, nil, syscall.WNOHANG, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return !errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
		}
	}
}
