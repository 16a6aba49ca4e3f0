//go:build unix

package command_test

import (
	"regexp"
	"strings"
	"syscall"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
	"golang.org/x/sys/unix"
)

// job is quorumlock run in the background.
type job struct {
	*child.Program
	args []string
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
	group, err := j.Number("child")
	w.Check(err)
	j.Kill()
	_ = syscall.Kill(-group, syscall.SIGKILL)
	if !poll.Until(bound, func() bool { return !child.Alive(group) }) {
		w.Fatalf("process %d is alive", group)
	}
}

// job ID [VARIABLE=VALUE...] ARGS...: quorumlock run ARGS in the background, until the script's end. If the line has the word
// ready, it waits until that is printed.
func (w *world) job(args []string) {
	id, args := args[0], args[1:]
	var set []string
	for strings.Contains(args[0], "=") && !strings.HasPrefix(args[0], "-") {
		set, args = append(set, args[0]), args[1:]
	}
	line := w.patiently(append([]string{"run"}, args...))
	j := &job{child.New(bin+"/quorumlock", line...), line}
	j.Dir = w.MkAbs(".")
	for _, name := range []string{"PATH", "TMPDIR", "HOME", "QUORUMLOCK_URLS", "WORK"} {
		j.Env = append(j.Env, name+"="+w.Getenv(name))
	}
	j.Env = append(j.Env, set...)
	w.Check(j.Start())
	j.Follow()
	w.Defer(func() {
		j.Kill()
		w.Logf("job %s: %v\nstdout: %s\nstderr: %s", id, j.ProcessState, &j.Out, &j.Errs)
	})
	w.jobs[id] = j
	if strings.Contains(strings.Join(args, " "), "ready") {
		w.prints([]string{id, "ready$"})
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
	if !poll.Until(bound, func() bool { return pattern.MatchString(j.Out.String()) || j.HasExited() }) || !pattern.MatchString(j.Out.String()) {
		w.Fatalf("it does not print %q", args[1])
	}
	_, _ = w.Stdout().Write([]byte(j.Out.String()))
}

// signal ID NAME: run gets the signal, TERM, STOP and so on.
func (w *world) signal(args []string) {
	w.Check(w.of(args[0]).Process.Signal(unix.SignalNum("SIG" + args[1])))
}

// ended ID CODE: the job ends, or has. What it printed is the script's stdout and stderr.
func (w *world) ended(args []string) {
	j := w.of(args[0])
	if !poll.Until(bound, j.HasExited) {
		w.Fatalf("waited %v for its end", bound)
	}
	w.code = j.ProcessState.ExitCode()
	_, _ = w.Stdout().Write([]byte(j.Out.String()))
	_, _ = w.Stderr().Write([]byte(j.Errs.String()))
	w.check(j.args, j.Out.String(), j.Errs.String())
	w.wantCode(args[1:])
}
