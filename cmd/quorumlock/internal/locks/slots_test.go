//go:build unix

package locks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Two commands run at a time, each with a slot of its own, and the other commands show the slots.
func TestSlots(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 6*time.Second)
	flags := d.Flags(t)
	const job = "echo slot=$QUORUMLOCK_SLOT, $QUORUMLOCK_NAMES ready; exec sleep 600"
	one := d.Start(t, "-slots", "2", "a", "--", "sh", "-c", job)
	other := d.Start(t, "-slots", "2", "-n", "a", "--", "sh", "-c", job)
	first, second := "slot=0, a ready\n", "slot=1, a ready\n"
	out := one.Out.String() + other.Out.String()
	testkit.Check(t, out == first+second || out == second+first, "the commands printed %q", out)
	d.Run(t, cli.ExitHeld, "-slots", "2", "-n", "a", "--", "true")
	d.Run(t, cli.ExitOK, "-n", "a", "--", "true") // the lock of that name is another
	waiting := d.Prepare("-slots", "2", "a", "--", "sh", "-c", job)
	waiting.Env = append(waiting.Env, "QUORUMLOCK_SLOT=3") // of an outer command
	waiting.Begin(t)

	clitest.Eventually(t, "both identities and the waiter", func() bool {
		held, _ := clitest.Ask(t, cli.ExitOK, "status", flags, "-slots", "2", "a")
		drawn, _ := clitest.Ask(t, cli.ExitOK, "top", flags)
		return strings.Contains(held, `"a" slot 0 is held by sh on `) && strings.Contains(held, `"a" slot 1 is held by sh on `) &&
			strings.Contains(strings.Join(strings.Fields(drawn), " "), `"a" slot 0 1 `) &&
			strings.Contains(strings.Join(strings.Fields(drawn), " "), `"a" slot 1 0 `)
	})
	hinted, _ := clitest.Ask(t, cli.ExitFailed, "status", flags, "a", "b")
	clitest.Contains(t, hinted, `"a" is free`, "\"a\" is also a semaphore, 2 of its slots taken: -slots N shows them\n")
	testkit.Check(t, !strings.Contains(hinted, `"b" is also`), "a semaphore without slots that are taken: %s", hinted)
	three, _ := clitest.Ask(t, cli.ExitFailed, "status", flags, "-slots", "3", "-json", "a")
	var slots []lockJSON
	if err := json.Unmarshal([]byte(three), &slots); err != nil || len(slots) != 3 {
		t.Fatal(err, three)
	}
	for k, s := range slots {
		want := map[bool]string{true: lockstate.Held, false: lockstate.Free}[k < 2]
		testkit.Check(t, s.Name == "a" && s.Slot != nil && *s.Slot == k && s.State == want, "slot %d: %+v", k, s)
	}
	drawn, _ := clitest.Ask(t, cli.ExitOK, "top", flags)
	testkit.Check(t, !strings.Contains(drawn, "quorumlock:slots"), "top shows a channel as a lock: %s", drawn)

	free := strings.TrimSuffix(strings.TrimPrefix(one.Out.String(), "slot="), ", a ready\n")
	printed, _ := clitest.Ask(t, cli.ExitOK, "unlock", flags, "-yes", "-slot", free, "a")
	clitest.Contains(t, printed, fmt.Sprintf(`unlocked: "a" slot %s was held by sh on `, free))
	waiting.AwaitOutput(t, "slot="+free)
	one.Await(t, cli.ExitEnded) // its renewal finds out
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
