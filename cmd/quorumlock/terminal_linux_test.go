package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// console is a shell script on a terminal of its own. It runs run as "$0".
type console struct {
	*process
	keys *os.File
	fd   int // of keys

	asked int // how many lines it was asked to carry out
}

// open starts the script with the arguments "$1", "$2", ...
func (d *deployment) open(t *testing.T, flags, script string, args ...string) *console {
	t.Helper()
	p := d.prepare("x", "--")
	p.Path, p.Args = "/bin/sh", append([]string{"sh", flags, script, os.Args[0]}, args...)
	return p.onTerminal(t)
}

// onTerminal starts the process on a terminal of its own.
func (p *process) onTerminal(t *testing.T) *console {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	keys := os.NewFile(uintptr(fd), "keys")
	t.Cleanup(func() { keys.Close() })
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	testkit.Must(t, err)
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	testkit.Must(t, err)
	defer screen.Close()

	p.Stdin, p.Stdout, p.Stderr = screen, screen, screen
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.shown = make(chan struct{})
	p.begin(t)
	t.Cleanup(func() { keys.Close() }) // before the wait for its end: it hangs up on all that is left
	go func() {
		defer close(p.shown)
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			if err != nil {
				return
			}
			_, _ = p.out.Write([]byte(strings.ReplaceAll(string(buffer[:n]), "\r", "")))
		}
	}()
	return &console{process: p, keys: keys, fd: fd}
}

func (c *console) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := c.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// The keys signal the command once it reads from the terminal: before, run may not yet have given
// it the terminal.
const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// The command reads from the terminal, and after it the script that it is part of.
func TestTheTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	c := d.open(t, "-c", `"$0" run x -- sh -c 'echo ready; read -r line; echo "1: $line"; exit 5'; code=$?
		echo next; read -r line; echo "2: $line"; exit $code`)
	c.awaitOutput(t, "ready\n")
	c.press(t, "one\n")
	c.awaitOutput(t, "1: one\n")
	c.awaitOutput(t, "next\n")
	c.press(t, "two\n")
	c.awaitOutput(t, "2: two\n")
	c.await(t, 5)
}

func TestCtrlCIsTheCommands(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	c := d.open(t, "-c", `trap 'echo script' INT; "$0" run x -- sh -c 'trap "echo INT" INT
		read -r line; echo ready; read -r line || read -r line; exit 5'`)
	c.press(t, "begin\n")
	c.awaitOutput(t, "ready\n")
	c.press(t, ctrlC)
	c.awaitOutput(t, "INT\n")
	c.press(t, "\n")
	c.await(t, 5)
	if strings.Contains(c.out.String(), "script") {
		t.Errorf("the script got the signal, too: %q", &c.out)
	}
}

// A job under Ctrl-Z is stopped as a whole, and goes on as a whole.
func TestJobControl(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	c := d.open(t, "-mc", `"$0" run x -- sh -c '(trap "" TSTP; exec sleep 600) & helper=$!; echo helper=$helper
			read -r line; echo ready; read -r line; echo "got $line"; kill $helper; exit 5'
		echo stopped; read -r line; fg; echo code=$?`)
	c.press(t, "begin\n")
	c.awaitOutput(t, "ready\n")
	helper := c.number(t, "helper")
	c.press(t, ctrlZ)
	c.awaitOutput(t, "stopped\n")
	eventually(t, "the command's child stopped, though it ignores Ctrl-Z", func() bool { return stateOf(helper) == "T" })
	c.press(t, "continue\n")
	c.press(t, "more\n")
	c.awaitOutput(t, "got more\n")
	c.awaitOutput(t, "code=5\n")
	c.await(t, exitOK)
}

// A command that never reads is stopped with run, which could not end it.
func TestCtrlZStopsACommandThatDoesNotRead(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	file := aFile(t)
	c := d.open(t, "-mc", `"$0" run x -- sh -c 'echo child=$$; echo ready; (`+untilGone(file)+`) & wait; exit 5'
		read -r line; fg; echo code=$?`)
	c.awaitOutput(t, "ready\n")
	child := c.number(t, "child")
	eventually(t, "the command in the foreground", func() bool {
		foreground, err := unix.IoctlGetInt(c.fd, unix.TIOCGPGRP)
		return err == nil && foreground == child
	})
	c.press(t, ctrlZ)
	eventually(t, "the command stopped", func() bool { return stateOf(child) == "T" })
	testkit.Must(t, os.Remove(file))
	c.press(t, "continue\n")
	c.awaitOutput(t, "code=5\n")
	c.await(t, exitOK)
}

// A job that was stopped for longer than its lease does nothing any more. Its shell starts nothing
// when Ctrl-Z comes: a stopped child of vfork would keep it from stopping.
func TestAJobThatContinuesTooLateIsKilled(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 6*time.Second)
	c := d.open(t, "-mc", `"$0" run -timeout 2s -max-lease 6s x -- sh -c 'trap "printf %s%s went on" CONT
			sleep 600 & read -r line; echo ready; while :; do wait; done'
		echo stopped; "$0" run -timeout 2s -max-lease 6s x -- echo another; fg; echo code=$?`)
	c.press(t, "begin\n")
	c.awaitOutput(t, "ready\n")
	c.press(t, ctrlZ)
	c.awaitOutput(t, "another\n")
	c.awaitOutput(t, fmt.Sprintf("code=%d\n", exitEnded))
	c.await(t, exitOK)
	if _, after, _ := strings.Cut(c.out.String(), "another\n"); strings.Contains(after, "wenton") {
		t.Errorf("the command went on without the lock: %q", &c.out)
	}
}

// A job in the background that wants to read is stopped, and reads when it is brought back.
func TestAJobInTheBackgroundReadsWhenItIsBroughtBack(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	c := d.open(t, "-mc", `"$0" run x -- sh -c 'echo ready; read -r line; echo "got $line"; exit 5' &
		while jobs >"$1"; ! grep -q Stopped "$1"; do sleep 0.02; done; fg; echo code=$?`, aFile(t))
	c.awaitOutput(t, "ready\n")
	c.press(t, "more\n")
	c.awaitOutput(t, "got more\n")
	c.awaitOutput(t, "code=5\n")
	c.await(t, exitOK)
}

// If no shell continues jobs, Ctrl-Z stops none.
func TestCtrlZWithoutJobControl(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	c := d.open(t, "-c", `exec "$0" run x -- sh -c 'read -r line; echo ready; read -r line; echo "got $line"; exit 5'`)
	c.press(t, "begin\n")
	c.awaitOutput(t, "ready\n")
	c.press(t, ctrlZ)
	c.press(t, "more\n")
	c.awaitOutput(t, "got more\n")
	c.await(t, 5)
}
