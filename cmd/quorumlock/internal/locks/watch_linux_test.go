package locks

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// status -watch and top draw again and again, until Ctrl-C or q, and leave the terminal as it was: they
// change no mode of it.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	c := d.Open(t, "-c", `trap : INT; "$0" status -watch -timeout 2s a; echo "code $?"; "$0" top -every 200ms -timeout 2s
		echo "code $?"; "$0" top -every 200ms -timeout 2s; echo "code $?"; read -r line; echo "line: $line"`)
	c.AwaitOutput(t, `"a" is free`)
	d.Start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	c.AwaitOutput(t, `"a" is held by sh on `)
	c.Press(t, clitest.CtrlC)
	c.AwaitOutput(t, "code 130\n")
	c.Eventually(t, "the lock in top's table", func() bool {
		_, table, _ := strings.Cut(c.Out.String(), "WAITING")
		return strings.Contains(table, `"a" `)
	})
	c.Press(t, clitest.CtrlC)
	clitest.Eventually(t, "the second end", func() bool { return strings.Count(c.Out.String(), "code 130\n") == 2 })
	clitest.Eventually(t, "the third screen", func() bool { return strings.Count(c.Out.String(), "\x1b[2J") == 3 })
	c.Press(t, "no\nq\n")
	c.AwaitOutput(t, "code 0\n")
	c.Press(t, "typed\n")
	c.AwaitOutput(t, "line: typed\n")
	c.Await(t, 0)
	said := c.Out.String()
	testkit.Check(t, !strings.Contains(said, "\x1b[?") && strings.Count(said, "\x1b[2J") == 3,
		"it changed a mode of the terminal, or did not clear it three times: %q", said)
	clitest.Contains(t, said, "quorumlock top (q and Enter ends it), ")
}

// The screen goes on while a master is frozen, and so does q.
func TestAFrozenMasterStopsNoScreen(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	c := d.Open(t, "-c", `"$0" top -every 200ms; echo "code $?"`)
	c.AwaitOutput(t, "masters not ok: 0 of 3")
	testkit.Must(t, d.Masters[1].Freeze())
	within := func(most time.Duration, text string) {
		t.Helper()
		since := poll.Start()
		defer since.Stop()
		c.AwaitOutput(t, text)
		took, stalled := since.Read()
		testkit.Check(t, took-stalled < most, "%q after %v, of which the machine stood still for %v", text, took, stalled)
	}
	within(4*time.Second, d.Masters[1].Addr()+": check: no reply in time")
	c.Press(t, "q\n")
	within(time.Second, "code 0\n")
}

// Nor does what is printed once wait for it as long as a connection may take.
func TestAFrozenMasterDelaysNothingForLong(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	flags := d.Flags(t)
	testkit.Must(t, d.Masters[1].Freeze())
	for command, says := range map[string]string{"status a": "NO VOTE: connect: down: timed out after 2s", "top": "FAILED"} {
		since := poll.Start()
		args := strings.Fields(command)
		code := map[string]int{"status": cli.ExitFailed, "top": cli.ExitOK}[args[0]]
		printed, _ := clitest.Ask(t, code, args[0], flags, args[1:]...)
		took, stalled := since.Read()
		since.Stop()
		clitest.Contains(t, printed, d.Masters[1].Addr()+" ", says)
		testkit.Check(t, took-stalled < 6*time.Second, "%s took %v, of which the machine stood still for %v", command, took, stalled)
	}
}
