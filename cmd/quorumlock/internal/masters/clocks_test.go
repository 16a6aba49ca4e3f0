package masters_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// check compares the masters' clocks with this machine's, and their rates.
func TestCheckComparesClocks(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for name, test := range map[string]struct {
		now  func() time.Time
		code int
		says string // empty for nothing about clocks
	}{
		"right":      {time.Now, cli.ExitOK, ""},
		"just right": {func() time.Time { return time.Now().Add(time.Since(began) / 1000) }, cli.ExitOK, ""},
		"ahead":      {func() time.Time { return time.Now().Add(40 * time.Second) }, cli.ExitOK, "its clock is 40s ahead of this machine's"},
		"behind":     {func() time.Time { return time.Now().Add(-90 * time.Minute) }, cli.ExitOK, "its clock is 1h30m0s behind this machine's"},
		"too fast":   {func() time.Time { return time.Now().Add(time.Since(began) / 2) }, cli.ExitFailed, "it was set, or runs at another rate, and leases end early"},
		"stands":     {func() time.Time { return began }, cli.ExitFailed, "it was set, or runs at another rate, and leases end late"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := clitest.WithClock(t, test.now)
			clitest.Command(t, cli.ExitOK, "admit", "-yes", "-members", url)
			type result struct {
				printed string
				code    int
			}
			got := clitest.WhileStalled(t, 10*time.Millisecond, func() (result, bool) {
				out, _, code := clitest.Patiently([]string{"check", url})
				return result{out.String(), code}, code == test.code
			})
			clitest.Contains(t, got.printed, test.says)
			testkit.Check(t, got.code == test.code && strings.Contains(got.printed, "its clock") == (test.says != ""),
				"exit code %d, want %d: %s", got.code, test.code, got.printed)
		})
	}
}
