//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// untilGone is a shell loop that runs until a file is gone, or the shell is ended.
func untilGone(file string) string { return `while [ -e "` + file + `" ]; do sleep 0.02; done; ` }

// aFile returns the path of a file that exists.
func aFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(path, nil, 0o600))
	return path
}

// The command decides what a signal does to it. The lock is held, and renewed, until it ends.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 6*time.Second)
	for _, s := range forwarded {
		name := strings.TrimPrefix(nameOf(s.(syscall.Signal)), "SIG")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := aFile(t)
			p := d.start(t, name, "--", "sh", "-c",
				`trap 'echo signalled' `+name+`; echo ready; `+untilGone(file)+`exit 3`)
			p.send(t, s.(syscall.Signal))
			p.awaitOutput(t, "signalled\n")
			began := time.Now()
			eventually(t, "a lease over", func() bool { return time.Since(began) > d.maxLease })
			d.run(t, exitHeld, "-n", name, "--", "true")
			testkit.Must(t, os.Remove(file))
			p.await(t, 3)
		})
	}
}

// A signal that ends programs reaches the command's children, as Ctrl-C does; SIGUSR1 means
// something to the command only.
func TestRunForwardsToTheGroup(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	p := d.start(t, "x", "--", "sh", "-c", `trap 'echo one' USR1; trap 'echo two' TERM; sleep 600 & echo helper=$!
		echo ready; until wait $!; [ $? = 143 ]; do :; done; exit 4`)
	helper := p.number(t, "helper")
	p.send(t, syscall.SIGUSR1)
	p.awaitOutput(t, "one\n")
	if !alive(helper) {
		t.Error("SIGUSR1 has ended the command's child")
	}
	p.send(t, syscall.SIGTERM)
	eventually(t, "the command's child ended", func() bool { return !alive(helper) })
	p.await(t, 4)
	contains(t, p.out.String(), "two\n")
}

func TestRunEndsByTheForwardedSignal(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	for _, s := range forwarded {
		p := d.start(t, "x", "--", "sh", "-c", "echo ready; exec sleep 600")
		p.send(t, s.(syscall.Signal))
		p.await(t, exitSignalled+int(s.(syscall.Signal)))
		if p.errs.String() != "" {
			t.Errorf("%v: %s", s, &p.errs)
		}
	}
}

func TestSignalsEndTheWaiting(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	d.start(t, "x", "--", "sh", "-c", "echo ready; exec sleep 600")
	for _, s := range forwarded {
		p := d.prepare("x", "--", "echo", "ran").begin(t)
		eventually(t, "a waiter", func() bool {
			reply := testkit.Do(t, d.Masters[0], "PUBSUB", "NUMSUB", "redisson_lock__channel:{x}").([]any)
			return reply[1].(int64) > 0
		})
		p.send(t, s.(syscall.Signal))
		p.await(t, exitSignalled+int(s.(syscall.Signal)))
		contains(t, oneErrorLine(t, p.errs.String()), "ended by "+nameOf(s.(syscall.Signal)), "held by ")
		if p.out.String() != "" {
			t.Errorf("%v: the command ran: %q", s, &p.out)
		}
		eventually(t, "the waiter gone", func() bool {
			reply := testkit.Do(t, d.Masters[0], "PUBSUB", "NUMSUB", "redisson_lock__channel:{x}").([]any)
			return reply[1].(int64) == 0
		})
	}
}

// Ctrl-C leaves no lock behind, whenever it comes: while run starts, connects, locks or starts the
// command, and while that runs.
func TestAnInterruptAtAnyMomentLeavesNoLock(t *testing.T) {
	t.Parallel()
	const lease = 2 * bound // a lock that is gone within bound was released
	d := deploy(t, 3, lease)
	for delay := time.Duration(0); delay < 80*time.Millisecond; delay += 4 * time.Millisecond {
		p := d.prepare("-lease", lease.String(), "x", "--", "sleep", "600").begin(t)
		<-time.After(delay) // the moment is what varies
		p.send(t, syscall.SIGINT)
		p.eventually(t, "the end of run", p.hasExited)
		eventually(t, "no lock", func() bool {
			held := false
			for _, m := range d.Masters {
				held = held || testkit.Do(t, m, "EXISTS", "x").(int64) > 0
			}
			return !held
		})
	}
}

// ignoredSignals returns the signals that a process started with the command ignores.
func ignoredSignals(t *testing.T, c *exec.Cmd) uint64 {
	t.Helper()
	var out bytes.Buffer
	c.Stdout = &out
	testkit.Must(t, c.Run())
	_, mask, found := strings.Cut(out.String(), "SigIgn:")
	if !found {
		t.Skip("no signals in /proc/self/status here")
	}
	bits, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(mask, "\n", 2)[0]), 16, 64)
	testkit.Must(t, err)
	return bits & (1<<31 - 1) // not the real-time signals, which the process that runs the tests may ignore
}

// A command that ignores SIGPIPE does not end with its reader. What nohup ignores stays so.
func TestTheCommandIgnoresWhatRunWasToldToIgnore(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	status := []string{"x", "--", "cat", "/proc/self/status"}
	p := d.prepare(status...)
	p.Stdout = nil
	if got := ignoredSignals(t, p.Cmd); got != 0 {
		t.Errorf("the command ignores the signals %b", got)
	}
	p = d.prepare(status...)
	p.Stdout = nil
	p.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, p.Args...)
	p.Path, p.Err = "/bin/sh", nil
	if got := ignoredSignals(t, p.Cmd); got != 1<<(syscall.SIGHUP-1) {
		t.Errorf("under nohup the command ignores the signals %b", got)
	}
}

// The exit code reports what the closed stderr cannot.
func TestRunWithoutStderr(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	d.start(t, "x", "--", "sh", "-c", "echo ready; exec sleep 600")
	read, write, err := os.Pipe()
	testkit.Must(t, err)
	read.Close()
	defer write.Close()
	p := d.prepare("-n", "x", "--", "true")
	p.Stderr = write
	p.begin(t).await(t, exitHeld)
}
