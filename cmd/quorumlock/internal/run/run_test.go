//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/locks"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/inmemory"
	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: append([]cli.Command{Command, masters.Check, masters.Admit}, locks.Commands...)})
}

func TestDefaultGrace(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]time.Duration{
		"":                                 5 * time.Second,
		"-lease 6s":                        2 * time.Second,
		"-max-lease 3s":                    time.Second,
		"-max-hold 4s":                     2 * time.Second,
		"-k 0":                             0,
		"-lease 8s -k 4s -max-hold 4001ms": 4 * time.Second,
	} {
		var l *line
		var err error
		row := cli.Command{Name: "run", Arguments: "NAME", Job: true, Define: func(flags *cli.Flags) cli.Action {
			l = newLine(flags)
			return func(_ context.Context, p *cli.Program, args []string) int {
				err = l.take(args, p.Job)
				return cli.ExitOK
			}
		}}
		args := append(append([]string{"run"}, strings.Fields(flags)...), "x", "--", "true")
		cli.App{Commands: []cli.Command{row}}.Run(t.Context(), args, io.Discard, io.Discard)
		testkit.Check(t, err == nil && l.grace == want, "%q: %+v, %v, want a grace of %v", flags, l, err, want)
	}
}

// A list that the masters refuse is a configuration error also while a host of it is down.
func TestRunIsRefusedWhileAMasterIsDown(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	urls := d.URLs()
	testkit.Must(t, d.Masters[2].Kill())
	for range 5 {
		for _, wait := range []string{"-n", "-w=20s"} {
			env := masters.URLsVariable + "=" + urls[0] + " " + urls[1] + " " + urls[2] + "?name=another"
			p := clitest.WhileStalled(t, 5*time.Millisecond, func() (*clitest.Process, bool) {
				p := d.Prepare(wait, "x", "--", "true")
				p.Env = append(p.Env, env)
				p.Begin(t)
				p.Eventually(t, "the end of run", p.HasExited)
				// While the machine stands still, run waits for the second master that refuses it, and says so.
				return p, p.ProcessState.ExitCode() == cli.ExitConfiguration && strings.Count(p.Errs.String(), "\n") == 1
			})
			p.Ends(t, cli.ExitConfiguration, "not retryable", "lists of masters differ")
		}
	}
}

// The crontab line on three machines, each next to one of the masters and 10 ms from the other two: at each tick one runs
// the job, and the others hear who has the lock.
func TestOneOfSimultaneousRunsHasTheLock(t *testing.T) {
	t.Parallel()
	const ticks = 10
	d := clitest.Deploy(t, 3, 30*time.Second)
	places := make([]string, len(d.Masters))
	for at := range places {
		var urls []string
		for i, m := range d.Masters {
			addr := m.Addr()
			if i != at {
				far := testkit.Got(forward.New(addr))(t)
				t.Cleanup(far.Close)
				far.DelayRequests(10*time.Millisecond, 0)
				addr = far.Addr()
			}
			urls = append(urls, fmt.Sprintf("redis://%s?name=%s", addr, m.Addr()))
		}
		places[at] = strings.Join(urls, ",")
	}
	end := filepath.Join(t.TempDir(), "end")
	for tick := range ticks {
		name := fmt.Sprint("tick ", tick)
		var all []*clitest.Process
		for _, urls := range places {
			p := d.Prepare("-timeout", "10s", "-n", name, "--", "sh", "-c", "until [ -e '"+end+"' ]; do sleep 0.01; done")
			p.Env = append(p.Env, masters.URLsVariable+"="+urls)
			all = append(all, p)
		}
		for _, p := range all {
			p.Begin(t)
		}
		running := func() (those []*clitest.Process) {
			for _, p := range all {
				if !p.HasExited() {
					those = append(those, p)
				}
			}
			return those
		}
		clitest.Eventually(t, "one of them with the lock", func() bool { return len(running()) < 2 })
		testkit.Must(t, os.WriteFile(end, nil, 0o600))
		ran := 0
		for _, p := range all {
			<-p.Exited
			if p.ProcessState.ExitCode() == cli.ExitOK {
				ran++
				continue
			}
			p.Ends(t, cli.ExitHeld, "held by ")
		}
		testkit.Check(t, ran == 1, "%s: %d of %d ran", name, ran, len(all))
		testkit.Must(t, os.Remove(end))
	}
}

// stubborn is a shell script that ignores SIGTERM, as its child does; the shell prints when it gets one.
const stubborn = `exec 2>/dev/null; trap '' TERM; sleep 600 >/dev/null 2>&1 & echo grandchild=$!; trap 'echo TERM' TERM
	echo child=$$; echo ready; while :; do sleep 0.02; done`

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
	testkit.Must(t, d.Masters[0].Kill())
	began := time.Now()
	clitest.Eventually(t, "a lease over", func() bool { return time.Since(began) > lease || p.HasExited() })
	testkit.Require(t, !p.HasExited(), "it ended while two masters of three renewed its lock, errors %q", &p.Errs)
	testkit.Must(t, d.Masters[1].Kill())
	since := poll.Start()
	p.Ends(t, cli.ExitEnded, "too few masters renewed it: the command got SIGTERM; ", "connection refused")
	endedWithin(t, lease-3*time.Second, since)
	clitest.Contains(t, p.Out.String(), "TERM\n")
}

func TestTheWholeGroupIsKilledAtTheDeadline(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	d := clitest.Deploy(t, 3, lease)
	p := d.Start(t, "-k", "1s", "x", "--", "sh", "-c", stubborn)
	testkit.Must(t, errors.Join(d.Masters[0].Kill(), d.Masters[1].Kill()))
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
	testkit.Require(t, testchild.Alive(p.Number(t, "child")), "the command is gone while run is halted")
	since := poll.Start()
	p.Send(t, syscall.SIGCONT)
	p.Await(t, cli.ExitEnded)
	endedWithin(t, 0, since)
	testkit.Check(t, !testchild.Alive(p.Number(t, "grandchild")), "the grandchild is alive")
	p.Ends(t, cli.ExitEnded, "the lock is lost", "the command was killed")
}

// What comes between the grant and the command's beginning takes too long.
func TestACommandDoesNotBeginAfterItsTime(t *testing.T) {
	t.Parallel()
	master := testkit.Opened(inmemory.Master())(t)
	locker := testkit.Opened(redlock.New([]*node.Node{master}))(t)
	lock := testkit.Got(locker.Lock(t.Context(), "x"))(t)
	file := aFile(t)
	j := newJob(&line{names: []string{"x"}, command: []string{"rm", file}, maxHold: time.Nanosecond}, locker, lock, nil, &caught{})
	clitest.Eventually(t, "the end of its time", func() bool { return j.left() <= 0 })
	_, ended, err := j.run("/bin/rm")
	testkit.Check(t, ended == nil && cli.CodeOf(err, 0) == cli.ExitEnded && strings.Contains(err.Error(), "the command was not started"),
		"%v, %v", ended, err)
	testkit.Got(os.Stat(file))(t)
}

// A lock whose lease had ended by the command's end was not held then, though no master has said so: run stood still.
func TestALockThatHadEndedWasNotHeld(t *testing.T) {
	t.Parallel()
	masters := quorumtest.Start(t, 1)
	lock := testkit.Got(masters.Locker().Lock(t.Context(), "x"))(t)
	l := &line{lease: quorum.DefaultLease}
	l.access.Timeout = time.Second
	testkit.Check(t, l.wasHeld(lock), "the lock is held")
	masters.FastForward(quorum.DefaultLease)
	testkit.Check(t, !l.wasHeld(lock), "the lease has ended")
	testkit.Check(t, errors.Is(lock.Unlock(t.Context()), quorum.ErrLost), "the lock is lost")
}

// Masters that are up did not renew a lock in time: its lease may be too short for them.
func TestMastersThatAreUpAreNotToBlame(t *testing.T) {
	t.Parallel()
	master, err := inmemory.Master()
	testkit.Must(t, err)
	defer master.Close()
	j := newJob(&line{lease: 50 * time.Millisecond}, nil, nil, []*node.Node{master}, &caught{})
	testkit.Equal(t, j.silent([]error{nil}), "; no master is down, or refuses: is the lease of 50ms too short?", "why")
}

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
