//go:build unix

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// bound is how long a test waits for anything: far longer than a busy machine needs.
const bound = 40 * time.Second

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(bound, holds) {
		t.Fatalf("waited %v: %s", bound, what)
	}
}

// deployment is masters that grant.
type deployment struct {
	*redistest.Fleet
	maxLease time.Duration
}

func deploy(t *testing.T, masters int, maxLease time.Duration) *deployment {
	t.Helper()
	d := &deployment{testkit.Real(t, masters), maxLease}
	admit := []string{"admit", "-yes", "-timeout", "10s", "-max-lease", maxLease.String()}
	command(t, exitOK, append(admit, d.URLs()...)...)
	d.run(t, exitOK, "first", "--", "true") // after a quarantine if the word was too old
	return d
}

// process is quorumlock run in a process of its own.
type process struct {
	*exec.Cmd
	out, errs output
	exited    chan struct{}
	shown     chan struct{} // closed when out has all that a terminal shows; nil without one
}

// prepare returns run as a process that is not started.
func (d *deployment) prepare(args ...string) *process {
	p := &process{exited: make(chan struct{})}
	args = append([]string{"run", "-timeout", "2s", "-max-lease", d.maxLease.String()}, args...)
	p.Cmd = exec.Command(os.Args[0], args...)
	p.Env = append(os.Environ(), commandVariable+"=1", "GORACE=atexit_sleep_ms=0",
		urlsVariable+"="+strings.Join(d.URLs(), ","))
	p.Stdout, p.Stderr = &p.out, &p.errs
	p.WaitDelay = 5 * time.Second // a process that is left behind may keep the pipes open
	return p
}

// begin starts the process, which ends with the test.
func (p *process) begin(t *testing.T) *process {
	t.Helper()
	testkit.Must(t, p.Start())
	p.follow(t)
	return p
}

// follow awaits the end of a process that was started, which comes with the test's.
func (p *process) follow(t *testing.T) {
	t.Helper()
	go func() {
		defer close(p.exited)
		_ = p.Wait()
		if p.shown != nil {
			<-p.shown
		}
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.exited
	})
}

// start starts run, and returns when its command has printed "ready".
func (d *deployment) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := d.prepare(args...).begin(t)
	p.awaitOutput(t, "ready\n")
	return p
}

func (p *process) awaitOutput(t *testing.T, text string) {
	t.Helper()
	p.eventually(t, fmt.Sprintf("%q printed", text), func() bool {
		return strings.Contains(p.out.String(), text) || p.hasExited()
	})
	if !strings.Contains(p.out.String(), text) {
		t.Fatalf("it ended with %v without %q: %q, errors %q", p.ProcessState, text, &p.out, &p.errs)
	}
}

// eventually waits for a condition. If it gives up, it tells what the process has printed by then.
func (p *process) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(bound, holds) {
		t.Fatalf("waited %v for %s\nstdout: %q\nstderr: %q", bound, what, &p.out, &p.errs)
	}
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// await waits for the end, and checks the exit code.
func (p *process) await(t *testing.T, wantCode int) {
	t.Helper()
	p.eventually(t, "the end of run", p.hasExited)
	if code := p.ProcessState.ExitCode(); code != wantCode {
		t.Errorf("%v, want exit code %d\nstdout: %s\nstderr: %s", p.ProcessState, wantCode, &p.out, &p.errs)
	}
}

func (p *process) send(t *testing.T, s syscall.Signal) {
	t.Helper()
	testkit.Must(t, p.Process.Signal(s))
}

// whileStalled repeats what fails beside stalls of the machine of at least that long, and returns the
// last result.
func whileStalled[R any](t *testing.T, atLeast time.Duration, try func() (R, bool)) R {
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

// number returns the number that the command printed after a word.
func (p *process) number(t *testing.T, word string) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(p.out.String(), word+"=")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("no %s in %q: %v", word, &p.out, err)
	}
	return n
}

// run runs run to its end, and checks the exit code and that there is at most one line of errors.
func (d *deployment) run(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := d.prepare(args...).begin(t)
	p.await(t, wantCode)
	return p.out.String(), oneErrorLine(t, p.errs.String())
}

func oneErrorLine(t *testing.T, stderr string) string {
	t.Helper()
	if stderr != "" && (strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "quorumlock: run: ")) {
		t.Errorf("not one line that says what it is of: %q", stderr)
	}
	return stderr
}

// alive reports whether a process runs: one that has ended and was not waited for does not.
func alive(pid int) bool {
	return syscall.Kill(pid, 0) == nil && !strings.Contains("Z X", cmp.Or(stateOf(pid), "unknown"))
}

// stateOf returns the letter of a process's state, if there is a /proc: T is stopped, Z a zombie.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ") // "pid (name) state parent ..."
	state, _, _ := strings.Cut(rest, " ")
	return state
}

func TestRunGivesTheCommandWhatTheLockIs(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	token := func() (token uint64) {
		began := time.Now()
		p := d.prepare("b,a", "--", "env")
		p.Env = append(p.Env, "QUORUMLOCK_TOKEN=outer", "QUORUMLOCK_OTHER=stays")
		p.begin(t).await(t, exitOK)
		contains(t, p.out.String(), "QUORUMLOCK_NAMES=b,a\n", "QUORUMLOCK_OTHER=stays\n", "QUORUMLOCK_OWNER=")
		if strings.Contains(p.out.String(), "outer") {
			t.Error("the outer lock's token is still there")
		}
		deadline := time.Unix(int64(p.number(t, "\nQUORUMLOCK_DEADLINE")), 0)
		if deadline.Before(began.Add(25*time.Second)) || deadline.After(time.Now().Add(30*time.Second)) {
			t.Errorf("deadline %v", deadline)
		}
		return uint64(p.number(t, "\nQUORUMLOCK_TOKEN"))
	}
	if first, second := token(), token(); first == 0 || second <= first {
		t.Errorf("tokens %d and %d", first, second)
	}
}

// What follows -- is the command's own: also what a shell adds to a line that it wants completed. Only
// -- itself is completed, to a flag.
func TestTheCommandHasItsArguments(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	for _, last := range []string{completionRequest, "-h", "--help", "-version", "--"} {
		if stdout, _ := d.run(t, exitOK, "x", "--", "printf", `%s\n`, last); stdout != last+"\n" {
			t.Errorf("%s: it printed %q", last, stdout)
		}
	}
	stdout, _ := d.run(t, exitOK, "--", completionRequest)
	contains(t, stdout, "--min-hold:")
}

func TestTheCommandHasStdin(t *testing.T) {
	t.Parallel()
	p := deploy(t, 3, 30*time.Second).prepare("x", "--", "cat")
	p.Stdin = strings.NewReader("from stdin\n")
	p.begin(t).await(t, exitOK)
	contains(t, p.out.String(), "from stdin\n")
}

func TestRunFindsTheMastersInAFile(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	urls := d.URLs()
	file := filepath.Join(t.TempDir(), "urls")
	text := fmt.Sprintf("# of the site, not redis://127.0.0.1:1\n%s, %s\n\n  %s\n", urls[0], urls[1], urls[2])
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	p := d.prepare("-urls-file", file, "x", "--", "true")
	p.Env = append(p.Env, urlsVariable+"=redis://127.0.0.1:1") // the file counts
	p.begin(t).await(t, exitOK)
}

func TestRunWithAllMasters(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	d.run(t, exitOK, "-n", "-all", "x", "--", "true")
	testkit.Must(t, d.Masters[0].Kill())
	d.run(t, exitOK, "-n", "x", "--", "true")
	d.run(t, exitUnavailable, "-n", "-all", "x", "--", "true")
}
