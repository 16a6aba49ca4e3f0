//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"golang.org/x/sys/unix"
)

// untilGone is a shell loop that runs until a file is gone, or the shell is ended.
func untilGone(file string) string { return `while [ -e "` + file + `" ]; do sleep 0.02; done; ` }

func aFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(path, nil, 0o600))
	return path
}

// The command decides what a signal does to it: that ends it, or the lock is held, and renewed, until it ends itself.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 6*time.Second)
	for _, s := range forwarded {
		name := strings.TrimPrefix(unix.SignalName(s.(syscall.Signal)), "SIG")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := aFile(t)
			p := d.Start(t, name, "--", "sh", "-c",
				`trap 'echo signalled' `+name+`; echo ready; `+untilGone(file)+`exit 3`)
			p.Send(t, s)
			p.AwaitOutput(t, "signalled\n")
			began := time.Now()
			clitest.Eventually(t, "a lease over", func() bool { return time.Since(began) > d.MaxLease })
			d.Run(t, cli.ExitHeld, "-n", name, "--", "true")
			testkit.Must(t, os.Remove(file))
			p.Await(t, 3)

			p = d.Start(t, name, "--", "sh", "-c", "echo ready; exec sleep 600")
			p.Send(t, s)
			p.Await(t, cli.ExitSignalled+int(s.(syscall.Signal)))
			testkit.Check(t, p.Errs.String() == "", "%v: %s", s, &p.Errs)
		})
	}
}

func TestSignalsEndTheWaiting(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	d.Start(t, "x", "--", "sh", "-c", "echo ready; exec sleep 600")
	waiters := func() int64 {
		return testkit.Do(t, d.Masters[0], "PUBSUB", "NUMSUB", "redisson_lock__channel:{x}").([]any)[1].(int64)
	}
	for _, s := range forwarded {
		p := d.Prepare("x", "--", "echo", "ran").Begin(t)
		clitest.Eventually(t, "a waiter", func() bool { return waiters() > 0 })
		p.Send(t, s)
		p.Ends(t, cli.ExitSignalled+int(s.(syscall.Signal)), "ended by "+unix.SignalName(s.(syscall.Signal)), "held by ")
		testkit.Check(t, p.Out.String() == "", "%v: the command ran: %q", s, &p.Out)
		clitest.Eventually(t, "the waiter gone", func() bool { return waiters() == 0 })
	}
}

// Ctrl-C leaves no lock behind, whenever it comes: while run starts, connects, locks or starts the
// command, and while that runs.
func TestAnInterruptAtAnyMomentLeavesNoLock(t *testing.T) {
	t.Parallel()
	const lease = 2 * clitest.Bound // a lock that is gone within bound was released
	d := clitest.Deploy(t, 3, lease)
	for delay := time.Duration(0); delay < 80*time.Millisecond; delay += 4 * time.Millisecond {
		p := d.Prepare("-lease", lease.String(), "x", "--", "sleep", "600").Begin(t)
		<-time.After(delay) // the moment is what varies
		p.Send(t, syscall.SIGINT)
		p.Eventually(t, "the end of run", p.HasExited)
		clitest.Eventually(t, "no lock", func() bool {
			return !slices.ContainsFunc(d.Masters, func(m *redistest.Master) bool { return testkit.Do(t, m, "EXISTS", "x") != int64(0) })
		})
	}
}

// A command that ignores SIGPIPE does not end with its reader. What nohup ignores stays so.
func TestTheCommandIgnoresWhatRunWasToldToIgnore(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	for before, want := range map[string]uint64{"": 0, `trap "" HUP; `: 1 << (syscall.SIGHUP - 1)} {
		p := d.Prepare("x", "--", "grep", "SigIgn", "/proc/self/status")
		p.Path, p.Args = "/bin/sh", append([]string{"sh", "-c", before + `exec "$0" "$@"`}, p.Args...)
		p.Begin(t).Await(t, cli.ExitOK)
		var got uint64
		testkit.Got(fmt.Sscanf(p.Out.String(), "SigIgn: %x", &got))(t)
		got &= 1<<31 - 1 // not the real-time signals, which the process that runs the tests may ignore
		testkit.Check(t, got == want, "%q: the command ignores the signals %b", before, got)
	}
}
