//go:build unix

package run

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A command that ends before -min-hold is followed by a wait with the lock. A signal ends the wait, and leaves the lock
// to its lease.
func TestRunHoldsTheLockForMinHold(t *testing.T) {
	d := clitest.Deploy(t, 3, 6*time.Second)
	began := time.Now()
	p := d.Start(t, "-min-hold", "4s", "x", "--", "sh", "-c", "echo ready; exit 7")
	d.Run(t, cli.ExitHeld, "-n", "x", "--", "true")
	d.Run(t, 7, "-w", "1m", "x", "--", "sh", "-c", "exit 7")
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("the next one ran after %v", took)
	}
	<-p.Exited
	if code := p.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d, errors %q", code, &p.Errs)
	}

	p = d.Start(t, "-min-hold", "1h", "x", "--", "sh", "-c", "echo $$; echo ready")
	child, err := strconv.Atoi(strings.Fields(p.Out.String())[0])
	testkit.Must(t, err)
	clitest.Eventually(t, "the command has ended", func() bool { return syscall.Kill(child, 0) == syscall.ESRCH })
	testkit.Must(t, p.Process.Signal(syscall.SIGTERM))
	p.Await(t, cli.ExitOK)
	d.Run(t, cli.ExitHeld, "-n", "x", "--", "true")
	d.Run(t, cli.ExitOK, "-w", "1m", "x", "--", "true")

	// A job that a signal has ended is not done: another may do it at once.
	p = d.Start(t, "-min-hold", "1h", "x", "--", "sh", "-c", "echo ready; exec sleep 100")
	testkit.Must(t, p.Process.Signal(syscall.SIGTERM))
	p.Await(t, cli.ExitSignalled+int(syscall.SIGTERM))
	d.Run(t, cli.ExitOK, "-n", "x", "--", "true")
}
