// Package clitest runs command lines in tests: in this process, in processes of their own, and on terminals. A
// package that tests a subcommand has [Main] in its TestMain, with the rows that its tests use.
package clitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/launch"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

// Variable makes the test binary run as the command.
const Variable = "QUORUMLOCK_TEST_COMMAND"

// Bound is how long a test waits for anything: far longer than a busy machine needs.
const Bound = 40 * time.Second

var app cli.App // set by Main

// Main runs the tests, or the command. After all tests it checks that no goroutine, process or file of theirs is left.
func Main(m *testing.M, tested cli.App) {
	launch.Become()
	app = tested
	if os.Getenv(Variable) != "" {
		app.Main()
		return
	}
	// The commands that the tests start must not inherit that nohup ignores the first signal, and a script the other two for
	// what it runs in the background: a signal that is caught is reset for a child.
	for _, ignored := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(ignored) {
			signal.Notify(make(chan os.Signal, 1), ignored)
		}
	}
	dir, err := os.MkdirTemp("", "quorumlock-command-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := errors.Join(goleak.Find(), child.NoneLeft(), Empty(dir), os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Empty returns an error if a directory has files.
func Empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if len(entries) > 0 {
		return fmt.Errorf("files: %v", entries)
	}
	return err
}

// Run carries out a command line in this process.
func Run(ctx context.Context, args []string, stdout, stderr *child.Printed) int {
	return app.Run(ctx, args, stdout, stderr)
}

// Command runs a command line and checks its exit code. A line that asks masters, and has no timeout, gets one that a busy
// machine does not exceed.
func Command(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	at := 0 // where a flag may be, of a command that asks masters
	switch {
	case len(args) == 0 || wantCode == cli.ExitUsage || slices.Contains(args, "-timeout"):
	case args[0] == "members":
		at = 2
	case args[0] == "check" || args[0] == "admit":
		at = 1
	}
	asksMasters := func(arg string) bool { return arg == "-urls-file" || strings.Contains(arg, "://") }
	if at > 0 && slices.ContainsFunc(args, asksMasters) {
		args = slices.Insert(slices.Clone(args), at, "-timeout", "10s")
	}
	var out, errs *child.Printed
	code := 0
	for range 20 { // the machine may stand still: then marks come too late, and the error asks to repeat the command
		out, errs = new(child.Printed), new(child.Printed)
		if code = Run(context.Background(), args, out, errs); !strings.Contains(errs.String(), "the marks come too late") {
			break
		}
	}
	testkit.Check(t, code == wantCode, "exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", code, wantCode, out, errs)
	return out.String(), errs.String()
}

func Contains(t *testing.T, in string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		testkit.Check(t, strings.Contains(in, text), "no %q in:\n%s", text, in)
	}
}

func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Require(t, poll.Until(Bound, holds), "waited %v: %s", Bound, what)
}

// WhileStalled repeats what fails next to stalls of the machine of at least that long, and returns the last result.
func WhileStalled[R any](t *testing.T, atLeast time.Duration, try func() (R, bool)) R {
	t.Helper()
	for tries := 1; ; tries++ {
		since := poll.Start()
		result, ok := try()
		took, stalled := since.Read()
		since.Stop()
		if ok || stalled < atLeast || tries == 10 {
			return result
		}
		t.Logf("the machine stood still for %v of %v: once more", stalled, took)
	}
}
