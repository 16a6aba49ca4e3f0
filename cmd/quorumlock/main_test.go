package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// commandVariable makes the test binary run as the command.
const commandVariable = "QUORUMLOCK_TEST_COMMAND"

// TestMain also checks after all tests that no goroutine, server or file of theirs is left.
func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		main()
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
	if err := errors.Join(goleak.Find(), noChildren(), empty(dir), os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// noChildren returns an error for child processes that still run, if there is a /proc.
func noChildren() error {
	if children := childrenOf(os.Getpid()); len(children) > 0 {
		return fmt.Errorf("processes: %.60q", children)
	}
	return nil
}

// childrenOf returns what /proc says of a process's children, with those that were not waited for.
func childrenOf(pid int) (children []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path)                  // nothing of one that has ended
		_, rest, _ := strings.Cut(string(stat), ") ") // "pid (name) state parent ..."
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == fmt.Sprint(pid) {
			children = append(children, string(stat))
		}
	}
	return children
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if len(entries) > 0 {
		return fmt.Errorf("files: %v", entries)
	}
	return err
}

// output collects what a command prints. Sees, if set, is called with each piece first.
type output struct {
	sees func(text string) error

	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	if o.sees != nil {
		if err := o.sees(string(p)); err != nil {
			return 0, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// onceSeen calls do when the text is printed for the first time.
func onceSeen(text string, do func() error) func(string) error {
	var seen bool
	var mu sync.Mutex
	return func(printed string) error {
		mu.Lock()
		first := !seen && strings.Contains(printed, text)
		seen = seen || first
		mu.Unlock()
		if first {
			return do()
		}
		return nil
	}
}

// command runs a command line and checks its exit code.
func command(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	if wantCode != exitUsage {
		args = patiently(args)
	}
	out, errs, code := runOnTime(args)
	if code != wantCode {
		t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", code, wantCode, out, errs)
	}
	return out.String(), errs.String()
}

// runOnTime repeats a command whose marks came too late, as its error asks for, because the machine
// stood still.
func runOnTime(args []string) (out, errs *output, code int) {
	for range 20 {
		out, errs = new(output), new(output)
		code = run(context.Background(), args, out, errs)
		if !strings.Contains(errs.String(), "the marks come too late") {
			break
		}
	}
	return out, errs, code
}

// patiently adds a timeout that a busy machine does not exceed, for the commands that ask masters and
// have no other one.
func patiently(args []string) []string {
	at := 1
	switch {
	case slices.Contains(args, "-timeout") || !slices.ContainsFunc(args, func(arg string) bool { return arg == "-urls-file" || strings.Contains(arg, "://") }):
		return args
	case args[0] == "members":
		at = 2
	case args[0] != "check" && args[0] != "admit":
		return args
	}
	return slices.Insert(slices.Clone(args), at, "-timeout", "10s")
}

// contains checks that the text contains all the parts.
func contains(t *testing.T, in string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(in, text) {
			t.Errorf("no %q in:\n%s", text, in)
		}
	}
}

// A message says what is wrong with which word, but repeats no value.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says string
		args []string
	}{
		{`there is no such command: "lock" (`, []string{"lock"}},
		{`there is no such command: "statsu"; did you mean status? (`, []string{"statsu"}},
		{`check: unknown flag: "-timout"; did you mean -timeout? (`, []string{"check", "-timout", "1s", "redis://127.0.0.1"}},
		{`check: unknown flag: "-tiemout"; did you mean -timeout? (`, []string{"check", "-tiemout", "1s", "redis://127.0.0.1"}},
		{`check: unknown flag: "-timeuot"; did you mean -timeout? (`, []string{"check", "--timeuot=" + secret}},
		{"check: unknown flag (", []string{"check", "---" + secret}},
		{"check: unknown flag (", []string{"check", "-=" + secret}},
		{"check: unknown flag (", []string{"check", "-" + secret + "@127.0.0.1"}},
		{"admit: unknown flag (", []string{"admit", "-yes", "-redis://:" + secret + "@127.0.0.1"}},
		{"check: -timeout needs a duration", []string{"check", "-timeout", secret}},
		{"admit: -max-lease needs a duration", []string{"admit", "-max-lease=" + secret, "redis://127.0.0.1"}},
		{"check: flag needs an argument: -timeout (", []string{"check", "-timeout"}},
		{"admit: -yes is given alone", []string{"admit", "-yes=" + secret, "redis://127.0.0.1"}},
		{"there is no such command (", []string{"redis://:" + secret + "@127.0.0.1"}},
		{"there is no such command (", []string{":" + secret + "@127.0.0.1"}},
		{"demo takes no arguments", []string{"demo", "now"}},
		{"version takes no arguments", []string{"version", "now"}},
		{"check needs the URL of at least one master: as an argument, by -urls-file, or in QUORUMLOCK_URLS", []string{"check"}},
		{"check takes URLs as arguments or from -urls-file, not from both", []string{"check", "-urls-file", "f", "redis://127.0.0.1"}},
		{"completion needs one of bash, zsh, fish, pwsh", []string{"completion", "tcsh"}},
		{`check: unknown flag: "-yes"`, []string{"check", "-yes", "redis://127.0.0.1"}},
		{"check: -timeout needs a duration", []string{"check", "-timeout", "redis://:" + secret + "@127.0.0.1"}},
		{"admit needs the URL of at least one master: as an argument, or by -urls-file; it does not read QUORUMLOCK_URLS",
			[]string{"admit"}},
		{"admit needs the URL", []string{"admit", "-yes"}},
		{`members needs one of show, add, remove, commit, abort, not "list"`, []string{"members", "list"}},
		{"members needs one of show, add, remove, commit, abort (", []string{"members", "redis://:" + secret + "@h"}},
		{"members needs one of show, add, remove, commit, abort (", []string{"members"}},
	} {
		stdout, stderr := command(t, exitUsage, test.args...)
		help := "(see quorumlock help)\n"
		if slices.Contains([]string{"demo", "version", "check", "admit"}, test.args[0]) {
			help = "(see quorumlock " + test.args[0] + " -h)\n"
		}
		contains(t, stderr, "quorumlock: "+test.says, help)
		if stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, secret) {
			t.Errorf("%q: stdout %q, stderr %q", test.args, stdout, stderr)
		}
	}
	_, stderr := command(t, exitUsage)
	contains(t, stderr, "COMMANDS:", "   demo ", "   check ", "   admit ", "Exit codes: ")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		printed, _ := command(t, exitOK, arg)
		contains(t, printed, "quorumlock ", runtime.Version())
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for name := range examples { // each command's help has an example, and its exit codes
		help, _ := command(t, exitOK, append(strings.Fields(name), "-h")...)
		contains(t, help, "Example", "  quorumlock "+name, "Exit codes: ")
	}
	for _, name := range []string{"run", "status", "top", "unlock", "demo", "check", "admit", "version", "members show",
		"members add", "members remove", "members commit", "members abort"} {
		if examples[name] == "" {
			t.Errorf("no example of %s", name)
		}
	}
	// The help says where the URLs come from, and where they do not.
	for _, name := range []string{"run", "status", "top", "unlock", "check", "members show"} {
		help, _ := command(t, exitOK, append(strings.Fields(name), "-h")...)
		_, options, _ := strings.Cut(help, "OPTIONS:")
		contains(t, options, urlsVariable)
	}
	for _, name := range []string{"admit", "members add", "members remove", "members commit", "members abort"} {
		if help, _ := command(t, exitOK, append(strings.Fields(name), "-h")...); strings.Contains(help, urlsVariable) {
			t.Errorf("%s does not read it: %s", name, help)
		}
	}
	for says, lines := range map[string][][]string{
		"   demo ":                        {{"help"}, {"-h"}, {"--help"}, {"-help"}, {"h"}},
		"under 40 s":                      {{"demo", "-h"}, {"demo", "--help"}, {"help", "demo"}},
		"--json            print JSON":    {{"check", "-h"}, {"check", "--help"}, {"check", "-timeout", "1s", "-h"}},
		"quorumlock admit [options] URL":  {{"admit", "-h"}, {"admit", "-yes", "--help"}, {"help", "admit"}},
		"quorumlock members [command":     {{"members", "-h"}, {"help", "members"}},
		"members add [options] NEW-URL U": {{"members", "add", "-h"}},
		"NAME[,NAME...] -- COMMAND":       {{"run", "-n", "-h"}, {"help", "run"}},
	} {
		for _, args := range lines {
			stdout, stderr := command(t, exitOK, args...)
			contains(t, stdout, says)
			if stderr != "" {
				t.Errorf("%q: stderr %q", args, stderr)
			}
		}
	}
	_, stderr := command(t, exitUsage, "help", "nothing")
	contains(t, stderr, "quorumlock: there is no help for that (see quorumlock help)\n")
}

func TestUnusableURLs(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "redis://127.0.0.1", "127.0.0.1:6379"},
		{"check", "redis://127.0.0.1", "-" + secret},
		{"admit", "-yes", "redis://127.0.0.1", "http://127.0.0.1"},
	} {
		stdout, stderr := command(t, exitUsage, args...)
		contains(t, stderr, "URL 2: ")
		if stdout != "" || strings.Contains(stderr, secret) || strings.Contains(stderr, "flags come before") != strings.Contains(args[2], secret) {
			t.Errorf("%q: printed %q, %q", args, stdout, stderr)
		}
	}
	_, stderr := command(t, exitUsage, "check", "-max-lease", "1ns", "redis://127.0.0.1")
	contains(t, stderr, "max lease 1ns")
}

// TestSignals sends signals to the command in a process of its own.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out := whileStalled(t, timeout/4, func() (*output, bool) { // the demo gives up on masters that stand still
				cmd := exec.Command(os.Args[0], "demo")
				cmd.Env = append(os.Environ(), commandVariable+"=1", "TMPDIR="+dir)
				signalled := false
				out := &output{sees: onceSeen("m1 is killed", func() error { signalled = true; return cmd.Process.Signal(signal) })}
				cmd.Stdout, cmd.Stderr = out, out
				var ended *exec.ExitError
				if err := cmd.Run(); signalled && (!errors.As(err, &ended) || ended.ExitCode() != exitInterrupted) {
					t.Errorf("ended with %v, want exit status %d:\n%s", err, exitInterrupted, out)
				}
				return out, signalled
			})
			contains(t, out.String(), "m1 is killed", "interrupted")
			if err := empty(dir); err != nil {
				t.Error(err)
			}
		})
	}
}
