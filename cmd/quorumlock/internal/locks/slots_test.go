//go:build unix

package locks

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

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
		out, _, code := clitest.Patiently((slices.Concat([]string{"status"}, flags, []string{"-all", "a"})))
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
