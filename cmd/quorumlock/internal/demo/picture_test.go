package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// play returns what a story draws in which worker A holds from 1 s to 5 s, and worker B from the given second on.
func play(second time.Duration) *timeline.Picture {
	chart := newChart(time.Now())
	chart.Add(workerA, timeline.Span{From: time.Second, To: 5 * time.Second, State: timeline.Holds, Token: 1_000_001})
	chart.Add(workerB, timeline.Span{From: second * time.Second, State: timeline.Holds, Token: 1_000_009})
	chart.Add(masterName(0), timeline.Span{From: 2 * time.Second, To: 10 * time.Second, State: timeline.Down, Text: "dead"})
	return picture(chart)
}

func TestDemoDrawsTwoHolders(t *testing.T) {
	t.Parallel()
	for second, want := range map[time.Duration]string{4: "Two holders of the lock, for 1s", 6: "Never two holders of the lock"} {
		p := play(second)
		testkit.Check(t, p.Verdict() == want, "%q of %+v, want %q", p.Verdict(), p.Rows, want)
	}
}

func TestDemoWritesThePicture(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "demo.svg")
	testkit.Must(t, os.WriteFile(path, []byte(strings.Repeat("previous ", 20_000)), 0o600))
	for path, works := range map[string]bool{path: true, filepath.Join(path, "none", "demo.svg"): false} {
		var out child.Printed
		d := &demo{narrator: newNarrator(&out, func(err error) { t.Error(err) }), chart: newChart(time.Now())}
		err := d.draw(path, &out)
		testkit.Check(t, (err == nil) == works && strings.Contains(out.String(), "One lock over five masters"),
			"%s: %v, and it said\n%s", path, err, &out)
	}
	svg := testkit.Read(t, path)
	testkit.Check(t, strings.HasPrefix(svg, "<svg ") && !strings.Contains(svg, "previous"), "%.100q", svg)
	_, stderr := clitest.Command(t, cli.ExitUsage, "demo", "-svg", "")
	clitest.Contains(t, stderr, "quorumlock: demo: -svg needs the path of a file")
}

// It sets variables of the environment, so it is not parallel.
func TestDemoPictureFitsTheTerminal(t *testing.T) {
	for _, test := range []struct {
		terminal, width int
		noColor, term   string
		colour          bool
	}{
		{60, 60, "", "xterm", true}, {60, 60, "1", "xterm", false}, {60, 60, "", "dumb", false}, {500, widest, "", "xterm", true},
		{0, 80, "", "xterm", false},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("TERM", test.term)
		width, colour := lineStyle(test.terminal)
		testkit.Check(t, width == test.width && colour == test.colour, "%+v: %d letters, colours %v", test, width, colour)
	}
}
