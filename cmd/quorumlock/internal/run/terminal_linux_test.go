package run

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"golang.org/x/sys/unix"
)

// The keys signal the command once it reads from the terminal: before, run may not yet have given it the terminal.

// The command reads from the terminal, and after it the script that it is part of.
func TestTheTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	c := d.Open(t, "-c", `"$0" run x -- sh -c 'echo ready; read -r line; echo "1: $line"; exit 5'; code=$?
		echo next; read -r line; echo "2: $line"; exit $code`)
	c.AwaitOutput(t, "ready\n")
	c.Press(t, "one\n")
	c.AwaitOutput(t, "1: one\n")
	c.AwaitOutput(t, "next\n")
	c.Press(t, "two\n")
	c.AwaitOutput(t, "2: two\n")
	c.Await(t, 5)
}

func TestCtrlCIsTheCommands(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	c := d.Open(t, "-c", `trap 'echo script' INT; "$0" run x -- sh -c 'trap "echo INT" INT
		read -r line; echo ready; read -r line || read -r line; exit 5'`)
	c.Press(t, "begin\n")
	c.AwaitOutput(t, "ready\n")
	c.Press(t, clitest.CtrlC)
	c.AwaitOutput(t, "INT\n")
	c.Press(t, "\n")
	c.Await(t, 5)
	testkit.Check(t, !strings.Contains(c.Out.String(), "script"), "the script got the signal, too: %q", &c.Out)
}

// A job under Ctrl-Z is stopped as a whole, and goes on as a whole.
func TestJobControl(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	c := d.Open(t, "-mc", `"$0" run x -- sh -c '(trap "" TSTP; exec sleep 600) & helper=$!; echo helper=$helper
			read -r line; echo ready; read -r line; echo "got $line"; kill $helper; exit 5'
		echo stopped; read -r line; fg; echo code=$?`)
	c.Press(t, "begin\n")
	c.AwaitOutput(t, "ready\n")
	helper := c.Number(t, "helper")
	c.Press(t, clitest.CtrlZ)
	c.AwaitOutput(t, "stopped\n")
	clitest.Eventually(t, "the command's child stopped, though it ignores Ctrl-Z", func() bool { return testchild.State(helper) == "T" })
	c.Press(t, "continue\n")
	c.Press(t, "more\n")
	c.AwaitOutput(t, "got more\n")
	c.AwaitOutput(t, "code=5\n")
	c.Await(t, cli.ExitOK)
}

// A command that never reads is stopped with run, which could not end it.
func TestCtrlZStopsACommandThatDoesNotRead(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	file := aFile(t)
	c := d.Open(t, "-mc", `"$0" run x -- sh -c 'echo child=$$; echo ready; (`+untilGone(file)+`) & wait; exit 5'
		read -r line; fg; echo code=$?`)
	c.AwaitOutput(t, "ready\n")
	child := c.Number(t, "child")
	clitest.Eventually(t, "the command in the foreground", func() bool {
		foreground, err := unix.IoctlGetInt(c.Terminal, unix.TIOCGPGRP)
		return err == nil && foreground == child
	})
	c.Press(t, clitest.CtrlZ)
	clitest.Eventually(t, "the command stopped", func() bool { return testchild.State(child) == "T" })
	testkit.Must(t, os.Remove(file))
	c.Press(t, "continue\n")
	c.AwaitOutput(t, "code=5\n")
	c.Await(t, cli.ExitOK)
}

// A job that was stopped for longer than its lease does nothing after it. Its shell starts nothing
// when Ctrl-Z comes: a stopped child of vfork would keep it from stopping.
func TestAJobThatContinuesTooLateIsKilled(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 6*time.Second)
	c := d.Open(t, "-mc", `"$0" run -timeout 2s -max-lease 6s x -- sh -c 'trap "printf %s%s went on" CONT
			sleep 600 & read -r line; echo ready; while :; do wait; done'
		echo stopped; "$0" run -timeout 2s -max-lease 6s x -- echo another; fg; echo code=$?`)
	c.Press(t, "begin\n")
	c.AwaitOutput(t, "ready\n")
	c.Press(t, clitest.CtrlZ)
	c.AwaitOutput(t, "another\n")
	c.AwaitOutput(t, fmt.Sprintf("code=%d\n", cli.ExitEnded))
	c.Await(t, cli.ExitOK)
	_, after, _ := strings.Cut(c.Out.String(), "another\n")
	testkit.Check(t, !strings.Contains(after, "wenton"), "the command went on without the lock: %q", &c.Out)
}

// A job in the background that wants to read is stopped, and reads when it is brought back.
func TestAJobInTheBackgroundReadsWhenItIsBroughtBack(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	c := d.Open(t, "-mc", `"$0" run x -- sh -c 'echo ready; read -r line; echo "got $line"; exit 5' &
		while jobs >"$1"; ! grep -q Stopped "$1"; do sleep 0.02; done; fg; echo code=$?`, aFile(t))
	c.AwaitOutput(t, "ready\n")
	c.Press(t, "more\n")
	c.AwaitOutput(t, "got more\n")
	c.AwaitOutput(t, "code=5\n")
	c.Await(t, cli.ExitOK)
}

// If no shell continues jobs, Ctrl-Z stops none.
func TestCtrlZWithoutJobControl(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	c := d.Open(t, "-c", `exec "$0" run x -- sh -c 'read -r line; echo ready; read -r line; echo "got $line"; exit 5'`)
	c.Press(t, "begin\n")
	c.AwaitOutput(t, "ready\n")
	c.Press(t, clitest.CtrlZ)
	c.Press(t, "more\n")
	c.AwaitOutput(t, "got more\n")
	c.Await(t, 5)
}
