//go:build unix

package locks

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestUnlock(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 6*time.Second)
	flags := d.Flags(t)
	p := d.Start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	awaitIdentity(t, flags, "a")
	printed, asked := clitest.Ask(t, cli.ExitLockUsage, "unlock", flags, "a", "b")
	clitest.Contains(t, asked, "two holders are possible", `"a" is held by sh on `, `"b" is free`, "the same command with -yes")
	testkit.Check(t, printed == "", "without -yes: %q", printed)
	clitest.Ask(t, cli.ExitOK, "status", flags, "a")

	printed, _ = clitest.Ask(t, cli.ExitOK, "unlock", flags, "-yes", "a", "b")
	clitest.Contains(t, printed, `unlocked: "a" was held by sh on `, `unlocked: "b" was free`)
	clitest.Ask(t, cli.ExitFailed, "status", flags, "a")
	d.Run(t, cli.ExitOK, "-n", "a", "--", "true")
	p.Await(t, cli.ExitEnded) // its renewal, at a third of the lease, finds out

	// A minority is no obstacle; a majority that refuses, or does not answer, is.
	testkit.Do(t, d.Masters[0], "SET", "a", "text")
	clitest.Ask(t, cli.ExitOK, "unlock", flags, "-yes", "a")
	testkit.Do(t, d.Masters[1], "SET", "a", "text")
	printed, _ = clitest.Ask(t, cli.ExitFailed, "unlock", flags, "-yes", "a")
	clitest.Contains(t, printed, `NOT UNLOCKED: "a"`, d.Masters[1].Addr())
	for _, m := range d.Masters[:2] {
		testkit.Equal(t, fmt.Sprintf("%s", testkit.Do(t, m, "GET", "a")), "text", "the key that is no lock")
		testkit.Must(t, m.Kill())
	}
	printed, _ = clitest.Ask(t, cli.ExitUnavailable, "unlock", flags, "-yes", "a")
	clitest.Contains(t, printed, `NOT UNLOCKED: "a"`, d.Masters[1].Addr())
}

// The holder changes between display and deletion: the successor keeps its lock, by -yes and by the line that was
// shown. run says that the holder was a process of this host that is dead, and how to free its lock.
func TestUnlockDeletesNoSuccessor(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	flags := d.Flags(t)
	const job = "echo ready; exec sleep 600"
	paste := func(shown, before string) (printed string) {
		t.Helper()
		_, line, _ := strings.Cut(shown, before+"quorumlock ")
		line, _, _ = strings.Cut(line, "\n")
		words := strings.Fields(line)
		if len(words) == 0 || !strings.HasSuffix(line, " -owner "+words[len(words)-2]+" a") {
			t.Fatalf("no line to paste: %s", shown)
		}
		printed, _ = clitest.Command(t, cli.ExitOK, words...)
		return printed
	}
	dead := d.Start(t, "a", "--", "sh", "-c", job)
	awaitIdentity(t, flags, "a")
	dead.Send(t, syscall.SIGKILL)
	dead.Eventually(t, "run gone", dead.HasExited)
	_, shown := clitest.Ask(t, cli.ExitLockUsage, "unlock", flags, "a")
	var nodes []*node.Node
	for _, url := range d.URLs() {
		n, err := node.Open(url)
		testkit.Must(t, err)
		defer n.Close()
		nodes = append(nodes, n)
	}
	old, _ := inspect(t.Context(), nodes, false, false, []string{"a"})

	isDead := fmt.Sprintf("this host has no process %d: ", dead.Process.Pid)
	refused := clitest.WhileStalled(t, 20*time.Millisecond, func() (string, bool) { // run waits for the holder's process for 20 ms
		_, refused := d.Run(t, cli.ExitHeld, "-urls-file", flags[5], "-n", "a", "--", "true")
		return refused, strings.Contains(refused, isDead)
	})
	clitest.Contains(t, refused, isDead)
	clitest.Contains(t, paste(refused, "frees its lock: "), `unlocked: "a" was held by sh on `)
	d.Start(t, "-n", "a", "--", "sh", "-c", job) // at once

	clitest.Contains(t, paste(shown, "\n  "), `has nothing left here; before: "a" is held `)
	locker, err := redlock.New(nodes)
	testkit.Must(t, err)
	defer locker.Close()
	testkit.Equal(t, forceOne(t.Context(), locker, old[0], "", 2, io.Discard), cli.ExitOK, "exit code")
	clitest.Ask(t, cli.ExitOK, "status", flags, "a")
}
