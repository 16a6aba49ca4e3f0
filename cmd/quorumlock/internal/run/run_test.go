//go:build unix

package run

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/locks"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: append([]cli.Command{Command, masters.Check, masters.Admit}, locks.Commands...)})
}

// alive reports whether a process runs: one that has ended and was not waited for does not.
func alive(pid int) bool {
	return syscall.Kill(pid, 0) == nil && !strings.Contains("Z X", cmp.Or(stateOf(pid), "unknown"))
}

// stateOf returns the letter of a process's state, if there is a /proc: T is stopped, Z a zombie.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ") // "pid (name) state parent ..."
	state, _, _ := strings.Cut(rest, " ")
	return state
}

func TestRunGivesTheCommandWhatTheLockIs(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	token := func() (token uint64) {
		began := time.Now()
		p := d.Prepare("b,a", "--", "env")
		p.Env = append(p.Env, "QUORUMLOCK_TOKEN=outer", "QUORUMLOCK_SLOT=outer", "QUORUMLOCK_OTHER=stays")
		p.Begin(t).Await(t, cli.ExitOK)
		clitest.Contains(t, p.Out.String(), "QUORUMLOCK_NAMES=b,a\n", "QUORUMLOCK_OTHER=stays\n", "QUORUMLOCK_OWNER=")
		testkit.Check(t, !strings.Contains(p.Out.String(), "outer"), "the outer lock's token, or slot, is still there")
		deadline := time.Unix(int64(p.Number(t, "\nQUORUMLOCK_DEADLINE")), 0)
		testkit.Check(t, !deadline.Before(began.Add(25*time.Second)) && !deadline.After(time.Now().Add(30*time.Second)),
			"deadline %v", deadline)
		return uint64(p.Number(t, "\nQUORUMLOCK_TOKEN"))
	}
	first, second := token(), token()
	testkit.Check(t, first != 0 && second > first, "tokens %d and %d", first, second)
}

// completionRequest ends a line that a shell wants completed.
const completionRequest = "--generate-shell-completion"

// What follows -- is the command's own: also what a shell adds to a line that it wants completed. Only
// -- itself is completed, to a flag.
func TestTheCommandHasItsArguments(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	for _, last := range []string{completionRequest, "-h", "--help", "-version", "--"} {
		stdout, _ := d.Run(t, cli.ExitOK, "x", "--", "printf", `%s\n`, last)
		testkit.Equal(t, stdout, last+"\n", last)
	}
	stdout, _ := d.Run(t, cli.ExitOK, "--", completionRequest)
	clitest.Contains(t, stdout, "--min-hold:")
}

// The URLs, with their passwords, are in the command's environment, as all that run has, or with -hide-urls not.
func TestTheCommandHasTheURLsUnlessHidden(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	out, _ := d.Run(t, cli.ExitOK, "x", "--", "env")
	clitest.Contains(t, out, "\n"+masters.URLsVariable+"="+strings.Join(d.URLs(), ","))
	out, _ = d.Run(t, cli.ExitOK, "-hide-urls", "x", "--", "env")
	testkit.Check(t, !strings.Contains(out, masters.URLsVariable) && strings.Contains(out, "QUORUMLOCK_TOKEN="), "the command has %s", out)
}

func TestTheCommandHasStdin(t *testing.T) {
	t.Parallel()
	p := clitest.Deploy(t, 3, 30*time.Second).Prepare("x", "--", "cat")
	p.Stdin = strings.NewReader("from stdin\n")
	p.Begin(t).Await(t, cli.ExitOK)
	clitest.Contains(t, p.Out.String(), "from stdin\n")
}

func TestRunFindsTheMastersInAFile(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	urls := d.URLs()
	file := filepath.Join(t.TempDir(), "urls")
	text := fmt.Sprintf("# of the site, not redis://127.0.0.1:1\n%s, %s\n\n  %s\n", urls[0], urls[1], urls[2])
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	p := d.Prepare("-urls-file", file, "x", "--", "true")
	p.Env = append(p.Env, masters.URLsVariable+"=redis://127.0.0.1:1") // the file counts
	p.Begin(t).Await(t, cli.ExitOK)
}

func TestRunWithAllMasters(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	d.Run(t, cli.ExitOK, "-n", "-all", "x", "--", "true")
	testkit.Must(t, d.Masters[0].Kill())
	d.Run(t, cli.ExitOK, "-n", "x", "--", "true")
	d.Run(t, cli.ExitUnavailable, "-n", "-all", "x", "--", "true")
}

// A command that ends before -min-hold is followed by a wait with the lock. A signal ends the wait, and leaves the lock
// to its lease.
func TestRunHoldsTheLockForMinHold(t *testing.T) {
	d := clitest.Deploy(t, 3, 6*time.Second)
	began := time.Now()
	p := d.Start(t, "-min-hold", "4s", "x", "--", "sh", "-c", "echo ready; exit 7")
	d.Run(t, cli.ExitHeld, "-n", "x", "--", "true")
	d.Run(t, 7, "-w", "1m", "x", "--", "sh", "-c", "exit 7")
	took := time.Since(began)
	testkit.Check(t, took >= 4*time.Second, "the next one ran after %v", took)
	<-p.Exited
	code := p.ProcessState.ExitCode()
	testkit.Check(t, code == 7, "exit code %d, errors %q", code, &p.Errs)

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
