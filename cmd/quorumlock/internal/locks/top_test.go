//go:build unix

package locks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// top finds locks by their waiters, and by their counters, and tells which processes hold them.
func TestTop(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	d.Run(t, cli.ExitOK, "was:held", "--", "true")
	holder := d.Start(t, "a,{b}", "--", "sh", "-c", "echo ready; exec sleep 600")
	d.Prepare("a", "--", "true").Begin(t)
	host, _ := os.Hostname()
	row := regexp.MustCompile(fmt.Sprintf(`"a" +1 +0 +\d+\.\ds +sh on %s \(%s, pid %d\) +\S+s ago +\d{16}\n`,
		regexp.QuoteMeta(host), regexp.QuoteMeta(filepath.Base(os.Args[0])), holder.Process.Pid))
	printed := ""
	clitest.Eventually(t, "a waiter in top's table", func() bool {
		printed, _ = clitest.Ask(t, cli.ExitOK, "top", d.Flags(t))
		return row.MatchString(printed)
	})
	clitest.Contains(t, printed, "MASTER ", d.Masters[0].Addr(), d.Masters[2].Addr(), " ok ", `"{b}"`)
	testkit.Check(t, !strings.Contains(printed, "was:held") && !strings.Contains(printed, "\x1b"),
		"not only what is held or waited for, as plain text: %q", printed)
	testkit.Check(t, strings.Index(printed, `"a"`) <= strings.Index(printed, `"{b}"`),
		"the busiest lock is not first: %s", printed)
}

func TestTopWithoutMasters(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	flags := d.Flags(t)
	testkit.Must(t, d.Masters[2].Kill())
	printed, _ := clitest.Ask(t, cli.ExitOK, "top", flags)
	clitest.Contains(t, printed, "masters not ok: 1 of 3; locks held: 0", "FAILED")
	first := regexp.MustCompile(`QUARANTINE\n! +` + d.Masters[2].Addr() + " +FAILED")
	testkit.Check(t, first.MatchString(printed), "the dead master is not first: %s", printed)
	clitest.Contains(t, printed, d.Masters[2].Addr()+": check: dial tcp", "waiting: 0\n")
	testkit.Must(t, d.Masters[1].Kill())
	printed, _ = clitest.Ask(t, cli.ExitOK, "top", flags)
	clitest.Contains(t, printed, "\n!  masters not ok: 2 of 3; locks held: 0; waiting: 0\n!  nothing new can be locked")
	testkit.Must(t, d.Masters[0].Kill())
	_, stderr := clitest.Ask(t, cli.ExitUnavailable, "top", flags)
	testkit.Check(t, stderr == "quorumlock: top: no master answers\n", "%q", stderr)
}

// top compares the masters' clocks with this machine's, and their rates since it began.
func TestTopComparesClocks(t *testing.T) {
	t.Parallel()
	var step atomic.Int64
	var nodes []*node.Node
	for _, now := range []func() time.Time{time.Now, func() time.Time { return time.Now().Add(time.Duration(step.Load())) }} {
		n, err := node.Open(clitest.WithClock(t, now), node.WithTimeout(clitest.Bound))
		testkit.Must(t, err)
		defer n.Close()
		nodes = append(nodes, n)
	}
	s := &survey{cursors: []string{"0", "0"}, known: map[string]*busy{}}
	for _, test := range []struct {
		step time.Duration
		says string
	}{
		{0, ""},
		{time.Minute, "its clock gained "}, // less by a round trip of a busy machine
	} {
		step.Store(int64(test.step))
		s.look(t.Context(), nodes, false)
		var printed bytes.Buffer
		s.print(&printed, time.Now(), 0)
		testkit.Check(t, strings.Contains(printed.String(), "its clock") == (test.says != ""), "%v: %s", test.step, &printed)
		if test.says != "" {
			clitest.Contains(t, printed.String(), "\n!  "+nodes[1].Name()+": "+test.says)
			var narrow bytes.Buffer
			s.print(&narrow, time.Now(), 60)
			clitest.Contains(t, strings.ReplaceAll(narrow.String(), "\n!   ", " "), nodes[1].Name()+": "+test.says, "leases end early\n")
		}
	}
}

// A long name leaves room for what follows it.
func TestNameWidth(t *testing.T) {
	t.Parallel()
	for terminal, want := range map[int]int{0: 64, 60: 24, 80: 24, 100: 40, 200: 64} {
		testkit.Equal(t, nameWidth(terminal), want, terminal)
	}
}

// A time is told only of a lock that a client of this library took, whose token is its clock.
func TestTakenAt(t *testing.T) {
	t.Parallel()
	now, us := time.Now(), scripts.Identity{Host: "h", PID: 1}
	token := func(at time.Time) uint64 { return uint64(at.UnixMicro()) }
	for i, test := range []struct {
		who  scripts.Identity
		by   uint64        // its token
		want time.Duration // ago; −1 for not known
	}{
		{us, token(now.Add(-time.Minute)), time.Minute},
		{scripts.Identity{}, token(now.Add(-time.Minute)), -1},
		{us, token(now.Add(time.Minute)), -1},
		{us, 42, -1},
	} {
		masters := []lockstate.Master{{InspectReply: scripts.InspectReply{Owner: "a"}}, {InspectReply: scripts.InspectReply{Owner: "a", Token: test.by}},
			{InspectReply: scripts.InspectReply{Token: token(now)}}}
		at := takenAt(lockstate.Lock{Owner: "a", Identity: test.who, Masters: masters}, now)
		got := now.Sub(at).Round(time.Millisecond)
		testkit.Check(t, at.IsZero() == (test.want < 0) && (at.IsZero() || got == test.want), "%d: %v ago, want %v", i, got, test.want)
	}
}

func TestDrawing(t *testing.T) {
	t.Parallel()
	text := []byte("first line\nüüüüüü\n! third\nfourth\n")
	for coloured, third := range map[bool]string{true: "\x1b[31m! th…\x1b[0m", false: "! th…"} {
		want := "\x1b[2J\x1b[Hfirs…\x1b[K\r\nüüüü…\x1b[K\r\n" + third + "\x1b[K\r\nfour…\x1b[K\r\n\x1b[J"
		got := drawing(text, 5, 5, true, coloured)
		testkit.Check(t, string(got) == want, "%q, want %q", got, want)
	}
	low := drawing(text, 20, 3, false, true)
	testkit.Check(t, string(low) == "\x1b[Hfirst line\x1b[K\r\n... 3 more lines\x1b[K\r\n\x1b[J", "a low terminal: %q", low)
	again := drawing(text, 5, 5, false, true)
	testkit.Check(t, !bytes.Contains(again, []byte("\x1b[2J")), "the second drawing clears the terminal: %q", again)
}

// status -watch loses nothing on a narrow terminal.
func TestWrapped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"exactly 10\n":                   "exactly 10\n",
		"one two three four five\nsix\n": "one two\n    three\n    four\n    five\nsix\n",
		"onetwothreefour\n":              "onetwothre\n    efour\n",
		"  a b c d e f\n":                "  a b c d\n    e f\n",
		"üüüüü üüüüü\n":                  "üüüüü\n    üüüüü\n",
		"夜間報告を待つ\n":                      "夜間報告を\n    待つ\n",
	} {
		testkit.Equal(t, string(wrapped([]byte(text), 10)), want, text)
	}
	testkit.Equal(t, string(wrapped([]byte("too narrow\n"), 8)), "too narrow\n", "8 columns")
}
