//go:build unix

package locks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/run"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: append(Commands, masters.Check, masters.Admit, run.Command)})
}

// The holder changes between display and deletion: the successor keeps its lock.
func TestUnlockDeletesNoSuccessor(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	var nodes []*node.Node
	for _, url := range d.URLs() {
		n, err := node.Open(url)
		testkit.Must(t, err)
		defer n.Close()
		nodes = append(nodes, n)
	}
	locker, err := redlock.New(nodes)
	testkit.Must(t, err)
	defer locker.Close()
	lock := func() *quorum.Lock {
		lock, err := locker.Lock(t.Context(), "a")
		testkit.Must(t, err)
		return lock
	}
	before := lock()
	old, _ := inspect(t.Context(), nodes, false, false, []string{"a"})
	testkit.Must(t, before.Unlock(t.Context()))
	after := lock()
	testkit.Equal(t, forceOne(t.Context(), locker, nodes, old[0], "", io.Discard), cli.ExitOK, "exit code")
	testkit.Must(t, after.Unlock(t.Context()))
}

// status and top count the readers of a name, and show that a writer waits for them.
func TestReadersAreShown(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	flags := d.Flags(t)
	locker, err := redlock.Open(d.URLs(), quorum.WithNodeOptions(node.WithTimeout(10*time.Second)))
	testkit.Must(t, err)
	defer locker.Close()
	for range 2 {
		reader, err := locker.RWLock("a").RLock(t.Context())
		testkit.Must(t, err)
		defer reader.Unlock(context.WithoutCancel(t.Context()))
	}
	row := func(holders string) *regexp.Regexp {
		return regexp.MustCompile(`"a" +\d+ +0 +\d+\.\ds +` + holders + ` +- +\d{16}\n`)
	}
	var held, drawn string
	clitest.Eventually(t, "two readers", func() bool {
		var out, errs child.Printed
		code := clitest.Run(t.Context(), slices.Concat([]string{"status"}, flags, []string{"-all", "a"}), &out, &errs)
		held = out.String()
		drawn, _ = clitest.Ask(t, cli.ExitOK, "top", flags)
		return code == cli.ExitOK && strings.Contains(held, `"a" is held by 2 readers for `) && row("2 readers").MatchString(drawn)
	})
	testkit.Check(t, !strings.Contains(held+drawn, "writer"), "nobody waits: %s\n%s", held, drawn)

	ctx, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := locker.Lock(ctx, "a")
		gaveUp <- err
	}()
	var locks []lockJSON
	clitest.Eventually(t, "the writer", func() bool {
		held, _ = clitest.Ask(t, cli.ExitOK, "status", flags, "a")
		drawn, _ = clitest.Ask(t, cli.ExitOK, "top", flags)
		text, _ := clitest.Ask(t, cli.ExitOK, "status", flags, "-json", "a")
		testkit.Must(t, json.Unmarshal([]byte(text), &locks))
		return strings.Contains(held, ", a writer waits\n") && strings.Contains(held, ", a writer keeps new readers back for ") &&
			row("2 readers, a writer waits").MatchString(drawn) && locks[0].WriterWaits
	})
	l := locks[0]
	testkit.Check(t, l.State == lockstate.Held && l.Readers == 2 && l.Owner == "" && l.Holder == (scripts.Identity{}) &&
		l.TTL > 0 && len(l.Masters) == 3, "json: %+v", l)
	giveUp()
	err = <-gaveUp
	testkit.Check(t, errors.Is(err, quorum.ErrHeld) && strings.Contains(err.Error(), "held by 2 readers, among them "),
		"the writer gave up with %v", err)
}
