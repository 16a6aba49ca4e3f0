//go:build unix

package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A command that ends before -min-hold is followed by a wait with the lock. A signal ends the wait, and leaves the lock
// to its lease.
func TestRunHoldsTheLockForMinHold(t *testing.T) {
	d := deploy(t, 3, 6*time.Second)
	began := time.Now()
	p := d.start(t, "-min-hold", "4s", "x", "--", "sh", "-c", "echo ready; exit 7")
	d.run(t, exitHeld, "-n", "x", "--", "true")
	d.run(t, 7, "-w", "1m", "x", "--", "sh", "-c", "exit 7")
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("the next one ran after %v", took)
	}
	<-p.exited
	if code := p.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d, errors %q", code, &p.errs)
	}

	p = d.start(t, "-min-hold", "1h", "x", "--", "sh", "-c", "echo $$; echo ready")
	child, err := strconv.Atoi(strings.Fields(p.out.String())[0])
	testkit.Must(t, err)
	eventually(t, "the command has ended", func() bool { return syscall.Kill(child, 0) == syscall.ESRCH })
	testkit.Must(t, p.Process.Signal(syscall.SIGTERM))
	p.await(t, exitOK)
	d.run(t, exitHeld, "-n", "x", "--", "true")
	d.run(t, exitOK, "-w", "1m", "x", "--", "true")

	// A job that a signal has ended is not done: another may do it at once.
	p = d.start(t, "-min-hold", "1h", "x", "--", "sh", "-c", "echo ready; exec sleep 100")
	testkit.Must(t, p.Process.Signal(syscall.SIGTERM))
	p.await(t, exitSignalled+int(syscall.SIGTERM))
	d.run(t, exitOK, "-n", "x", "--", "true")
}
