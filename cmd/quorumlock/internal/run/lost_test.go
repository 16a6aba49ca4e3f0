//go:build unix

package run

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// stubborn is a shell script that ignores SIGTERM, as its child does; the shell prints when it gets one.
const stubborn = `exec 2>/dev/null; trap '' TERM; sleep 600 >/dev/null 2>&1 & echo grandchild=$!; trap 'echo TERM' TERM
	echo child=$$; echo ready; while :; do sleep 0.02; done`

func kill(t *testing.T, d *clitest.Deployment, masters ...int) {
	t.Helper()
	for _, i := range masters {
		testkit.Must(t, d.Masters[i].Kill())
	}
}

// endedWithin fails the test if a command that has just ended took a second longer than due, by a stopwatch
// that it stops. The machine's stalls lengthen the bound.
func endedWithin(t *testing.T, due time.Duration, since *poll.Stopwatch) {
	t.Helper()
	took, stalled := since.Read()
	since.Stop()
	testkit.Check(t, took <= poll.AtMost(due+time.Second, stalled),
		"it ended after %v, due after %v; the machine stood still for %v", took, due, stalled)
}

func TestTheCommandEndsBeforeItsLock(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	d := clitest.Deploy(t, 3, lease)
	p := d.Start(t, "-k", "3s", "x", "--", "sh", "-c",
		`exec 2>/dev/null; trap 'echo TERM; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	kill(t, d, 0)
	began := time.Now()
	clitest.Eventually(t, "a lease over", func() bool { return time.Since(began) > lease || p.HasExited() })
	if p.HasExited() {
		t.Fatalf("it ended while two masters of three renewed its lock: %v, errors %q", p.ProcessState, &p.Errs)
	}
	kill(t, d, 1)
	since := poll.Start()
	p.Ends(t, cli.ExitEnded, "too few masters renewed it: the command got SIGTERM")
	endedWithin(t, lease-3*time.Second, since)
	clitest.Contains(t, p.Out.String(), "TERM\n")
}

func TestTheWholeGroupIsKilledAtTheDeadline(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	d := clitest.Deploy(t, 3, lease)
	p := d.Start(t, "-k", "1s", "x", "--", "sh", "-c", stubborn)
	kill(t, d, 0, 1)
	since := poll.Start()
	p.AwaitOutput(t, "TERM\n")
	p.Await(t, cli.ExitEnded)
	endedWithin(t, lease, since)
	for _, word := range []string{"child", "grandchild"} {
		testkit.Check(t, !testchild.Alive(p.Number(t, word)), "the %s is alive", word)
	}
	p.Ends(t, cli.ExitEnded, "the lock is lost", "connect", "the command was killed")
}

// Masters that answer again after SIGTERM do not lengthen the grace.
func TestTheGraceIsNotLengthened(t *testing.T) {
	t.Parallel()
	const lease = 8 * time.Second
	d := clitest.Deploy(t, 3, lease)
	p := d.Start(t, "-k", "4s", "x", "--", "sh", "-c", stubborn)
	testkit.Must(t, errors.Join(d.Masters[0].Freeze(), d.Masters[1].Freeze()))
	p.AwaitOutput(t, "TERM\n")
	since := poll.Start()
	testkit.Must(t, errors.Join(d.Masters[0].Thaw(), d.Masters[1].Thaw()))
	p.Ends(t, cli.ExitEnded, "the command was killed")
	endedWithin(t, 4*time.Second, since)
	d.Run(t, cli.ExitOK, "-n", "x", "--", "true") // it was renewed, and is released
}

// The command ends at SIGTERM and leaves behind a process that does not.
func TestWhatTheCommandLeavesBehindIsKilledAtTheDeadline(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	began := time.Now()
	p := d.Start(t, "-max-hold", "6s", "-k", "3s", "x", "--", "sh", "-c",
		`exec 2>/dev/null; trap '' TERM; (echo grandchild=$(exec sh -c 'echo $PPID'); echo ready
		while :; do sleep 0.02; done) &
		trap 'echo TERM; exit 0' TERM; while :; do sleep 0.02; done`)
	p.AwaitOutput(t, "TERM\n")
	took := time.Since(began)
	testkit.Check(t, took >= 3*time.Second, "SIGTERM after %v", took)
	grandchild := p.Number(t, "grandchild")
	testkit.Check(t, testchild.Alive(grandchild), "it was killed before its time")
	p.Await(t, cli.ExitEnded)
	took = time.Since(began)
	testkit.Check(t, took >= 6*time.Second && !testchild.Alive(grandchild), "ended after %v, or it is alive", took)
	p.Ends(t, cli.ExitEnded, "-max-hold 6s: the command was killed")
	d.Run(t, cli.ExitOK, "-n", "-max-hold", "10s", "x", "--", "true")
}

// Nothing can end the command while run is halted. When run continues, another may hold the lock.
func TestTheCommandIsKilledWhenRunContinuesTooLate(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 6*time.Second)
	p := d.Start(t, "x", "--", "sh", "-c", stubborn)
	p.Send(t, syscall.SIGSTOP)
	d.Run(t, cli.ExitOK, "x", "--", "true") // waits for the end of the lease
	if !testchild.Alive(p.Number(t, "child")) {
		t.Fatal("the command is gone while run is halted")
	}
	since := poll.Start()
	p.Send(t, syscall.SIGCONT)
	p.Await(t, cli.ExitEnded)
	endedWithin(t, 0, since)
	testkit.Check(t, !testchild.Alive(p.Number(t, "grandchild")), "the grandchild is alive")
	p.Ends(t, cli.ExitEnded, "the lock is lost", "the command was killed")
}
