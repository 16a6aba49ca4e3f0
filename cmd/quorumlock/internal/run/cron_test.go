//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// recipeLines returns the lines of a document that run the nightly report, from "quorumlock" on.
func recipeLines(t *testing.T, document string) []string {
	t.Helper()
	text := testkit.Read(t, filepath.Join("..", "..", "..", "..", "docs", document))
	var found []string
	for _, line := range regexp.MustCompile(`(?m)^    .*\b(quorumlock run .* nightly-report -- .*)$`).FindAllStringSubmatch(text, -1) {
		found = append(found, line[1])
	}
	return found
}

// The line that the documents have for every machine's crontab runs a short job once per tick, on machines of which one
// is 2 s late. Machines that skip a tick print nothing, which cron would mail.
func TestTheCronRecipeRunsTheJobOncePerTick(t *testing.T) {
	t.Parallel()
	lines := recipeLines(t, "recipes.md")
	if len(lines) != 1 {
		t.Fatalf("%d lines in recipes.md: %q", len(lines), lines)
	}
	const inCron = "-urls-file /etc/quorumlock/urls " // systemd has the variable
	others := recipeLines(t, "operations.md")
	testkit.Check(t, len(others) == 2, "not a line for cron and one for systemd in operations.md: %q", others)
	for _, line := range others {
		testkit.Check(t, strings.Replace(line, inCron, "", 1) == strings.Replace(lines[0], inCron, "", 1),
			"operations.md has another line than recipes.md: %q", line)
	}

	d := clitest.Deploy(t, 3, 30*time.Second)
	dir := t.TempDir()
	urls := filepath.Join(dir, "urls")
	testkit.Must(t, os.WriteFile(urls, []byte(strings.Join(d.URLs(), "\n")), 0o600))
	start := func(tick int) *clitest.Process {
		ran := fmt.Sprintf("sh -c 'echo ran >>%s/tick-%d'", dir, tick)
		line := strings.NewReplacer("quorumlock run", "exec '"+os.Args[0]+"' run -timeout 10s", "/etc/quorumlock/urls", urls,
			"nightly-report", fmt.Sprintf("nightly-report-%d", tick), "/usr/local/bin/report", ran).Replace(lines[0])
		return clitest.NewProcess("/bin/sh", "-c", line).Begin(t)
	}
	// The ticks do not wait for each other: each has a lock of its own.
	const ticks, apart, late = 20, 200 * time.Millisecond, 2 * time.Second
	var machines [ticks][]*clitest.Process
	began := time.Now()
	at := func(due time.Duration) { <-time.After(due - time.Since(began)) } // a tick is a moment: nothing is awaited
	const lag = int(late / apart)                                           // in ticks
	for tick := range ticks + lag {
		at(time.Duration(tick) * apart)
		if tick < ticks {
			machines[tick] = append(machines[tick], start(tick), start(tick))
		}
		if tick >= lag {
			machines[tick-lag] = append(machines[tick-lag], start(tick-lag))
		}
	}
	for tick, started := range machines {
		var holding []*clitest.Process
		clitest.Eventually(t, "all machines but one have skipped the tick", func() bool {
			holding = holding[:0]
			for _, p := range started {
				if !p.HasExited() {
					holding = append(holding, p)
				}
			}
			return len(holding) <= 1
		})
		for _, p := range holding { // it waits with the lock
			p.Send(t, syscall.SIGTERM)
		}
		for _, p := range started {
			p.Await(t, cli.ExitOK)
			testkit.Check(t, p.Out.String() == "" && p.Errs.String() == "",
				"tick %d: a machine printed %q, %q", tick, &p.Out, &p.Errs)
		}
		ran, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("tick-%d", tick)))
		testkit.Check(t, string(ran) == "ran\n", "tick %d: the job ran %d times: %v", tick, strings.Count(string(ran), "ran"), err)
	}
}
