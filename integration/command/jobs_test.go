//go:build unix

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"golang.org/x/sys/unix"
)

// job is quorumlock run in the background.
type job struct {
	*exec.Cmd
	args      []string
	out, errs buffer
	exited    chan struct{}
}

// buffer has what a process has printed.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// hold ID [ARGS...]: a process has the lock, until its end or the script's. ARGS are of quorumlock run, before the --; without
// any the lock has the job's name.
func (w *world) hold(args []string) {
	id := args[0]
	if len(args) > 1 {
		args = args[1:]
	}
	w.job(append([]string{id}, append(args, "--", "sh", "-c", "echo child=$$; echo ready; exec sleep 600")...))
}

// killed ARGS...: as hold, and then run dies by SIGKILL, and its job with its group, as a unit's does.
func (w *world) killed(args []string) {
	w.hold(append([]string{"killed"}, args...))
	j := w.jobs["killed"]
	_, child, _ := strings.Cut(j.out.String(), "child=")
	group, err := strconv.Atoi(strings.Fields(child)[0])
	w.Check(err)
	w.Check(j.Process.Kill())
	<-j.exited
	_ = syscall.Kill(-group, syscall.SIGKILL)
	if !poll.Until(bound, func() bool { return !alive(group) }) {
		w.Fatalf("process %d is alive", group)
	}
}

// job ID [VARIABLE=VALUE...] ARGS...: quorumlock run ARGS in the background, until the script's end. If the line has the word
// ready, it waits until that is printed.
func (w *world) job(args []string) {
	id, args := args[0], args[1:]
	j := &job{exited: make(chan struct{})}
	var set []string
	for strings.Contains(args[0], "=") && !strings.HasPrefix(args[0], "-") {
		set, args = append(set, args[0]), args[1:]
	}
	j.args = w.patiently(append([]string{"run"}, args...))
	j.Cmd = exec.Command(bin+"/quorumlock", j.args...)
	j.Dir = w.MkAbs(".")
	for _, name := range []string{"PATH", "TMPDIR", "HOME", "QUORUMLOCK_URLS", "WORK"} {
		j.Env = append(j.Env, name+"="+w.Getenv(name))
	}
	j.Env = append(j.Env, set...)
	j.Stdout, j.Stderr = &j.out, &j.errs
	j.WaitDelay = 5 * time.Second // a process that is left behind may keep the pipes open
	w.Check(j.Start())
	go func() {
		defer close(j.exited)
		_ = j.Wait()
	}()
	w.Defer(func() {
		_ = j.Process.Kill()
		<-j.exited
		w.Logf("job %s: %v\nstdout: %s\nstderr: %s", id, j.ProcessState, &j.out, &j.errs)
	})
	w.jobs[id] = j
	if strings.Contains(strings.Join(args, " "), "ready") {
		w.prints([]string{id, "ready$"})
	}
}

func (j *job) hasExited() bool {
	select {
	case <-j.exited:
		return true
	default:
		return false
	}
}

func (w *world) of(id string) *job {
	if w.jobs[id] == nil {
		w.Fatalf("no job %q", id)
	}
	return w.jobs[id]
}

// prints ID PATTERN: the job prints it. Its stdout is the script's.
func (w *world) prints(args []string) {
	j, pattern := w.of(args[0]), regexp.MustCompile(`(?m)`+args[1])
	if !poll.Until(bound, func() bool { return pattern.MatchString(j.out.String()) || j.hasExited() }) || !pattern.MatchString(j.out.String()) {
		w.Fatalf("it does not print %q", args[1])
	}
	_, _ = w.Stdout().Write([]byte(j.out.String()))
}

// signal ID NAME: run gets the signal, TERM, STOP and so on.
func (w *world) signal(args []string) {
	w.Check(w.of(args[0]).Process.Signal(unix.SignalNum("SIG" + args[1])))
}

// ended ID CODE: the job ends, or has. What it printed is the script's stdout and stderr.
func (w *world) ended(args []string) {
	j := w.of(args[0])
	if !poll.Until(bound, j.hasExited) {
		w.Fatalf("waited %v for its end", bound)
	}
	w.code = j.ProcessState.ExitCode()
	_, _ = w.Stdout().Write([]byte(j.out.String()))
	_, _ = w.Stderr().Write([]byte(j.errs.String()))
	w.check(j.args, j.out.String(), j.errs.String())
	w.wantCode(args[1:])
}

// alive reports whether a process runs: one that has ended and was not waited for does not.
func alive(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, found := strings.Cut(string(stat), ") ") // "pid (name) state parent ..."
	return syscall.Kill(pid, 0) == nil && !(found && strings.ContainsAny(rest[:1], "ZX"))
}
