//go:build unix

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
	"go.uber.org/goleak"
)

// Variable makes the test binary run as the command.
const Variable = "QUORUMLOCK_TEST_COMMAND"

// Bound is how long a test waits for anything: far longer than a busy machine needs.
const Bound = 40 * time.Second

var app cli.App // set by Main

// Main runs the tests, or the command. After all tests it checks that no goroutine, process or file of theirs
// is left.
func Main(m *testing.M, tested cli.App) {
	launch.Become()
	app = tested
	if os.Getenv(Variable) != "" {
		app.Main()
		return
	}
	// If the tests run under nohup, the commands that they start must not inherit an ignored SIGHUP:
	// a signal that is caught is reset for a child.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	// Likewise in the background of a script, which makes a job ignore these two.
	for _, ignored := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} {
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

// Command runs a command line and checks its exit code.
func Command(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	run := Patiently
	if wantCode == cli.ExitUsage {
		run = onTime
	}
	out, errs, code := run(args)
	if code != wantCode {
		t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", code, wantCode, out, errs)
	}
	return out.String(), errs.String()
}

// onTime repeats a command whose marks came too late, as its error asks for, because the machine
// stood still.
func onTime(args []string) (out, errs *child.Printed, code int) {
	for range 20 {
		out, errs = new(child.Printed), new(child.Printed)
		code = Run(context.Background(), args, out, errs)
		if !strings.Contains(errs.String(), "the marks come too late") {
			break
		}
	}
	return out, errs, code
}

// Patiently runs a command with a timeout that a busy machine does not exceed, if it asks masters and has no
// other one.
func Patiently(args []string) (out, errs *child.Printed, code int) {
	at := 1
	switch {
	case slices.Contains(args, "-timeout") || !slices.ContainsFunc(args, func(arg string) bool { return arg == "-urls-file" || strings.Contains(arg, "://") }):
		return onTime(args)
	case args[0] == "members":
		at = 2
	case args[0] != "check" && args[0] != "admit":
		return onTime(args)
	}
	return onTime(slices.Insert(slices.Clone(args), at, "-timeout", "10s"))
}

// Contains checks that the text contains all the parts.
func Contains(t *testing.T, in string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(in, text) {
			t.Errorf("no %q in:\n%s", text, in)
		}
	}
}

// Eventually waits for a condition.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(Bound, holds) {
		t.Fatalf("waited %v: %s", Bound, what)
	}
}

// WhileStalled repeats what fails next to stalls of the machine of at least that long, and returns the
// last result.
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
