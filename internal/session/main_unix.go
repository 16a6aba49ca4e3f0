//go:build unix

// Command session runs a command in a session of its own:
//
//	go run ./internal/session go test ./integration/chaos
//
// Linux divides the processor among sessions before it divides a session's part among its processes
// (autogroup). Containers whose clients shared a session with compilers or searches stood still for 1
// to 16 seconds at a time (Linux 6.18); with clients in a session of their own, they never did.
//
// So nice(1) alone is for a session's own processes. Here the session gets the niceness as well:
//
//	nice -n 19 go run ./internal/session go test ./quorum/model/...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "session: name the command")
		os.Exit(2)
	}
	code, err := run(exec.Command(os.Args[1], os.Args[2:]...))
	if err != nil {
		fmt.Fprintln(os.Stderr, "session:", err)
	}
	os.Exit(code)
}

// run runs the command, and returns its exit code. A terminal's Ctrl-C reaches its own session only, so
// an interrupt is passed on to all that the command has started.
func run(cmd *exec.Cmd) (code int, err error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 2, err
	}
	yield(cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal)) // it may have ended
		case err := <-ended:
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.Exited():
				return exit.ExitCode(), nil
			case err != nil:
				return 1, err
			}
			return 0, nil
		}
	}
}

// yield gives a session the niceness of this process, where the kernel has niceness of sessions (Linux).
func yield(leader int) {
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/autogroup", leader), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if value, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil { // Linux returns 20 minus the niceness
		_, _ = fmt.Fprint(file, 20-value) // else the session is as nice as others
	}
}
