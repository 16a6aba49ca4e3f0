package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Deployment is masters that grant.
type Deployment struct {
	*redistest.Fleet
	MaxLease time.Duration
}

// Deploy starts masters that grant. The tests' app must have admit and run.
func Deploy(t *testing.T, masters int, maxLease time.Duration) *Deployment {
	t.Helper()
	d := &Deployment{testkit.Real(t, masters), maxLease}
	admit := []string{"admit", "-yes", "-timeout", "10s", "-max-lease", maxLease.String()}
	Command(t, cli.ExitOK, append(admit, d.URLs()...)...)
	d.Run(t, cli.ExitOK, "first", "--", "true") // after a quarantine if the word was too old
	return d
}

// Flags returns the flags that lead to the masters.
func (d *Deployment) Flags(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "urls")
	testkit.Must(t, os.WriteFile(file, []byte(strings.Join(d.URLs(), "\n")), 0o600))
	return []string{"-timeout", "2s", "-max-lease", d.MaxLease.String(), "-urls-file", file}
}

// Ask runs a command with the masters' flags.
func Ask(t *testing.T, wantCode int, name string, flags []string, args ...string) (stdout, stderr string) {
	t.Helper()
	return Command(t, wantCode, append(append([]string{name}, flags...), args...)...)
}

// Process is a command in a process of its own.
type Process struct{ *child.Program }

// NewProcess returns a process that is not started. Where it runs the test binary, that is the command.
func NewProcess(name string, args ...string) *Process {
	p := &Process{child.New(name, args...)}
	p.Env = append(os.Environ(), Variable+"=1", "GORACE=atexit_sleep_ms=0")
	return p
}

// Prepare returns run as a process that is not started.
func (d *Deployment) Prepare(args ...string) *Process {
	p := NewProcess(os.Args[0], append([]string{"run", "-timeout", "2s", "-max-lease", d.MaxLease.String()}, args...)...)
	p.Env = append(p.Env, masters.URLsVariable+"="+strings.Join(d.URLs(), ","))
	return p
}

// Start starts run, and returns when its command has printed "ready".
func (d *Deployment) Start(t *testing.T, args ...string) *Process {
	t.Helper()
	p := d.Prepare(args...).Begin(t)
	p.AwaitOutput(t, "ready\n")
	return p
}

// Run runs run to its end, and checks the exit code and that there is at most one line of errors.
func (d *Deployment) Run(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := d.Prepare(args...).Begin(t)
	p.Ends(t, wantCode)
	return p.Out.String(), p.Errs.String()
}

// Begin starts the process, which ends with the test.
func (p *Process) Begin(t *testing.T) *Process {
	t.Helper()
	testkit.Must(t, p.Start())
	p.Follow(t)
	return p
}

// Follow awaits the end of a process that was started, which comes with the test's.
func (p *Process) Follow(t *testing.T) {
	t.Helper()
	p.Program.Follow()
	t.Cleanup(p.Kill)
}

// AwaitOutput waits until the process has printed the text.
func (p *Process) AwaitOutput(t *testing.T, text string) {
	t.Helper()
	p.Eventually(t, fmt.Sprintf("%q printed", text), func() bool {
		return strings.Contains(p.Out.String(), text) || p.HasExited()
	})
	if !strings.Contains(p.Out.String(), text) { // it has ended: only then its state may be read
		t.Fatalf("it ended with %v without %q: %q, errors %q", p.ProcessState, text, &p.Out, &p.Errs)
	}
}

func (p *Process) Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Require(t, poll.Until(Bound, holds), "waited %v for %s\nstdout: %q\nstderr: %q", Bound, what, &p.Out, &p.Errs)
}

// Await waits for the end, and checks the exit code.
func (p *Process) Await(t *testing.T, wantCode int) {
	t.Helper()
	p.Eventually(t, "the end of run", p.HasExited)
	code := p.ProcessState.ExitCode()
	testkit.Check(t, code == wantCode, "%v, want exit code %d\nstdout: %s\nstderr: %s", p.ProcessState, wantCode, &p.Out, &p.Errs)
}

// Ends waits for the end, and checks the exit code and that there is at most one line of errors, with these texts.
func (p *Process) Ends(t *testing.T, wantCode int, says ...string) {
	t.Helper()
	p.Await(t, wantCode)
	errs := p.Errs.String()
	testkit.Check(t, errs == "" || strings.Count(errs, "\n") == 1 && strings.HasPrefix(errs, "quorumlock: run: "),
		"not one line that says what it is of: %q", errs)
	Contains(t, errs, says...)
}

func (p *Process) Send(t *testing.T, s os.Signal) {
	t.Helper()
	testkit.Must(t, p.Process.Signal(s))
}

// Number returns the number that the command printed after a word.
func (p *Process) Number(t *testing.T, word string) int {
	t.Helper()
	n, err := p.Program.Number(word)
	testkit.Require(t, err == nil, "no %s in %q: %v", word, &p.Out, err)
	return n
}
