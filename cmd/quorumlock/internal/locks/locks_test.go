//go:build unix

package locks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/run"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
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
		n := testkit.Opened(node.Open(url))(t)
		nodes = append(nodes, n)
	}
	locker := testkit.Opened(redlock.New(nodes))(t)
	lock := func() *quorum.Lock {
		return testkit.Got(locker.Lock(t.Context(), "a"))(t)
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
	locker := testkit.Opened(redlock.Open(d.URLs(), quorum.WithNodeOptions(node.WithTimeout(10*time.Second))))(t)
	for range 2 {
		reader := testkit.Got(locker.RWLock("a").RLock(t.Context()))(t)
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
	err := <-gaveUp
	testkit.Check(t, errors.Is(err, quorum.ErrHeld) && strings.Contains(err.Error(), "held by 2 readers, among them "),
		"the writer gave up with %v", err)
}

// top compares the masters' clocks with this machine's, and their rates since it began.
func TestTopComparesClocks(t *testing.T) {
	t.Parallel()
	var step atomic.Int64
	var nodes []*node.Node
	for _, now := range []func() time.Time{time.Now, func() time.Time { return time.Now().Add(time.Duration(step.Load())) }} {
		fleet := testkit.Got(standin.WithClock(1, now))(t)
		defer fleet.Stop()
		n := testkit.Opened(node.Open(fleet.URLs()[0], node.WithTimeout(clitest.Bound)))(t)
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
		masters := []lockstate.Master{{InspectReply: operators.InspectReply{Owner: "a"}}, {InspectReply: operators.InspectReply{Owner: "a", Token: test.by}},
			{InspectReply: operators.InspectReply{Token: token(now)}}}
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

// Characters that are wide, or on top of others, shift no column.
func TestTable(t *testing.T) {
	t.Parallel()
	var all table
	for _, name := range []string{"plain", "夜間報告", "ｶﾀｶﾅ", "e\u0301te\u0301", "🔒 한국어"} {
		all.row(name, "after", 1)
	}
	var printed strings.Builder
	all.print(&printed)
	for line := range strings.Lines(printed.String()) {
		before, _, _ := strings.Cut(line, "after")
		testkit.Equal(t, columns(before), 11, line)
		testkit.Check(t, strings.HasSuffix(line, "after  1\n"), "it ends with spaces: %q", line)
	}
	for width, want := range map[int]string{9: "夜間報告", 8: "夜間報告", 7: "夜間報…", 6: "夜間…", 1: "…"} {
		testkit.Equal(t, cut("夜間報告", width), want, width)
	}
}
