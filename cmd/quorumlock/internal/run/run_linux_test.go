package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The death signal fires when the thread that forked ends, not the process.
func TestTheCommandOutlivesTheThreadsOfRun(t *testing.T) {
	children := make([]*child, 8)
	for i := range children { // each by a thread of its own, and the main one, which never ends, is one at most
		var err error
		children[i], err = startChild("/bin/sleep", []string{"sleep", "600"}, os.Environ())
		testkit.Must(t, err)
		testkit.Must(t, children[i].Go())
	}
	threadsNow := func() int {
		tasks := testkit.Got(os.ReadDir("/proc/self/task"))(t)
		return len(tasks)
	}
	before := threadsNow()
	const threads = 64
	var meet, gone sync.WaitGroup
	meet.Add(threads)
	for range threads {
		gone.Go(func() {
			runtime.LockOSThread() // never unlocked: its thread ends with the goroutine
			meet.Done()
			meet.Wait() // so each has a thread of its own, and old threads are used up
		})
	}
	gone.Wait()
	clitest.Eventually(t, "the threads ended", func() bool { return threadsNow() <= before+len(children) })
	for _, c := range children {
		testkit.Check(t, testchild.Alive(c.PID), "it died with a thread")
		c.signalGroup(syscall.SIGKILL)
		close(c.watch)
		status := <-c.changes
		testkit.Check(t, status.Signal() == syscall.SIGKILL, "it ended with %v", status)
	}
}

// systemd's own proxy runs under a lock, and serves the socket that systemd-socket-activate has opened for it.
func TestTheCommandServesSystemdsSocket(t *testing.T) {
	t.Parallel()
	activate, err := exec.LookPath("systemd-socket-activate")
	proxy := "/usr/lib/systemd/systemd-socket-proxyd"
	if _, missing := os.Stat(proxy); err != nil || missing != nil {
		t.Skipf("SKIPPED, needs systemd: %v", errors.Join(err, missing))
	}
	d := clitest.Deploy(t, 3, 30*time.Second)
	socket := filepath.Join(t.TempDir(), "socket")
	p := d.Prepare("-n", "-owner-file", socket+".owner", "x", "--", proxy, d.Masters[0].Addr())
	p.Args = append([]string{activate, "-l", socket, "-E", clitest.Variable, "-E", masters.URLsVariable}, p.Args...)
	p.Path = activate
	p.Begin(t)
	p.Eventually(t, "the socket", func() bool { return strings.Contains(p.Errs.String(), "Listening on ") || p.HasExited() })
	conn := testkit.Opened(redis.Dial("unix", socket, redis.DialReadTimeout(clitest.Bound)))(t)
	pong, err := redis.String(conn.Do("PING"))
	testkit.Check(t, err == nil && pong == "PONG", "%q, %v; errors %q", pong, err, &p.Errs)
	d.Run(t, cli.ExitHeld, "-n", "x", "--", "true")
}

const lateInitVariable = "QUORUMLOCK_TEST_LATE_INIT"

// With lateInitVariable, the process runs the command as an init that waits for no orphan, and prints those that it got.
func init() {
	if os.Getenv(lateInitVariable) == "" {
		return
	}
	os.Unsetenv(lateInitVariable)
	adoptOrphans()
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	_ = cmd.Run() // the exit code says it
	for {
		orphan, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if orphan <= 0 || err != nil {
			os.Exit(cmd.ProcessState.ExitCode())
		}
		fmt.Println("orphan", orphan)
	}
}

// A dead process stays in the command's group until it is waited for. Where init does not, run does, and so ends at once.
func TestRunReapsWhatItKills(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	p := d.Prepare("-max-hold", "4s", "-k", "2s", "x", "--", "sh", "-c", stubborn)
	p.Env = append(p.Env, lateInitVariable+"=1")
	p.Begin(t)
	p.Await(t, cli.ExitEnded)
	printed := p.Out.String()
	testkit.Check(t, strings.Contains(printed, "grandchild=") && !strings.Contains(printed, "orphan"),
		"run left a dead process of the group to init: %q", printed)
}

// In a container that has no init, run is process 1, and orphans are its to wait for: also those that outlive the command.
func TestRunAsProcessOneReapsOrphans(t *testing.T) {
	t.Parallel()
	d, dir := clitest.Deploy(t, 3, 30*time.Second), t.TempDir()
	p := d.Prepare("-min-hold", "10m", "x", "--", "sh", "-c", `
		cd "$1"
		until_there() { until [ -e "$1" ]; do sleep 0.02; done; }
		(until_there late &)
		for i in 1 2 3 4 5 6 7 8 9 10; do (true &); done
		echo ready
		until_there end
		exit 7`, "sh", dir)
	p.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		p.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := p.Cmd.Start(); errors.Is(err, syscall.EPERM) {
		t.Skipf("SKIPPED, needs namespaces of processes: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	p.Follow(t)
	p.AwaitOutput(t, "ready\n")
	left := func(want int) func() bool {
		return func() bool { return len(testchild.Children(p.Process.Pid)) == want }
	}
	p.Eventually(t, "only the command and one orphan", left(2))
	create := func(name string) {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	create("end")
	p.Eventually(t, "only the orphan", left(1))
	create("late")
	p.Eventually(t, "no process", left(0))
	p.Send(t, syscall.SIGTERM) // ends the min hold
	p.Await(t, 7)
}

// A file is in use while a process of its job's group lives: not while another group has the number, or only dead ones
// are in it, which nobody waits for.
func TestOwnerFileTellsTheJobFromAnother(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	file := filepath.Join(t.TempDir(), "owner")
	p := d.Start(t, "-owner-file", file, "a", "--", "sh", "-c", "echo child=$$; echo ready; exec sleep 600")
	p.Send(t, syscall.SIGKILL)
	<-p.Exited
	clitest.Eventually(t, "the job dead", func() bool { return !testchild.Alive(p.Number(t, "child")) })
	var right ownerfile.Record
	testkit.Must(t, json.Unmarshal([]byte(testkit.Read(t, file)), &right))
	// write writes the record as a run would, but for the job and the machine.
	write := func(job ownerfile.Job, machine string) {
		testkit.Must(t, os.WriteFile(file, nil, 0o600))
		var stat syscall.Stat_t
		testkit.Must(t, syscall.Stat(file, &stat))
		r := right
		r.File, r.Job, r.Machine = fmt.Sprint(stat.Dev, ":", stat.Ino), job, machine
		text := testkit.Got(json.Marshal(r))(t)
		testkit.Must(t, os.WriteFile(file, append(text, '\n'), 0o600))
	}
	start := func(attributes *syscall.SysProcAttr, script string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", script)
		cmd.SysProcAttr = attributes
		testkit.Must(t, cmd.Start())
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		})
		return cmd
	}
	group := &syscall.SysProcAttr{Setpgid: true}
	living := start(group, "exec sleep 600")
	leaderless := start(group, "sleep 600 & exit")
	session := start(&syscall.SysProcAttr{Setsid: true}, "sleep 600 & exit")
	zombie := start(group, "exit")
	for _, ended := range []*exec.Cmd{leaderless, session, zombie} {
		clitest.Eventually(t, "the leader dead", func() bool { return testchild.State(ended.Process.Pid) == "Z" })
	}
	for _, test := range []struct {
		what  string
		job   ownerfile.Job
		inUse bool
	}{
		{"the job", ownerfile.JobOf(living.Process.Pid), true},
		{"a job whose leader is dead", ownerfile.JobOf(leaderless.Process.Pid), true},
		{"a later process with its number", ownerfile.Job{Group: living.Process.Pid, Started: "1", Namespace: right.Job.Namespace}, false},
		{"a process of another namespace", ownerfile.Job{Group: living.Process.Pid, Started: right.Job.Started, Namespace: "pid:[1]"}, false},
		{"a daemon, whose leader is dead", ownerfile.JobOf(session.Process.Pid), false},
		{"a dead process that nobody waits for", ownerfile.JobOf(zombie.Process.Pid), false},
		{"nothing", right.Job, false},
	} {
		for _, machine := range []string{right.Machine, "another"} {
			write(test.job, machine)
			want := cli.ExitOK
			if test.inUse && machine == right.Machine {
				want = cli.ExitHeld
			}
			p := d.Prepare("-n", "-owner-file", file, "b", "--", "true").Begin(t)
			p.Ends(t, want)
			testkit.Check(t, strings.Contains(p.Errs.String(), "the process group") == (want == cli.ExitHeld), "%s: %q", test.what, &p.Errs)
		}
	}
}
