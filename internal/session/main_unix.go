//go:build unix

// Command session runs a command in a session of its own:
//
//	go run ./internal/session go test -C integration ./chaos
//
// Linux divides the processor among sessions before it divides a session's part among its processes
// (autogroup). Containers whose clients shared a session with compilers or searches stood still for 1
// to 16 seconds at a time (Linux 6.18); with clients in a session of their own, they never did.
//
// So nice(1) alone orders only the processes of one session. Here the session gets the niceness as well:
//
//	nice -n 19 go run ./internal/session go test ./quorum/model/...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
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

// run runs the command, and returns its exit code. The command's process group gets the signals that end us
// (a terminal's reach its own session only), and SIGTERM when our parent has ended: go run passes no signal on.
func run(cmd *exec.Cmd) (code int, err error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	parent := os.Getppid()
	if err := cmd.Start(); err != nil {
		return 2, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	go setNiceness(cmd.Process.Pid)
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal)) // it may have ended
		case <-second.C:
			if os.Getppid() != parent {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			}
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

// setNiceness gives a session the niceness of this process, where the kernel has niceness of sessions (Linux).
func setNiceness(leader int) {
	value, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	niceness := 20 - value // Linux returns 20 minus the niceness
	if err != nil || niceness == 0 {
		return
	}
	path := fmt.Sprintf("/proc/%d/autogroup", leader)
	if _, err := os.Stat(path); err != nil {
		return
	}
	for range 100 {
		// Without privileges, the kernel lets one session of the machine have its niceness set per 100 ms.
		if err = os.WriteFile(path, []byte(strconv.Itoa(niceness)), 0); !errors.Is(err, syscall.EAGAIN) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // the command has ended
		fmt.Fprintln(os.Stderr, "session: not as nice as its processes:", err)
	}
}
