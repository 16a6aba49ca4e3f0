package run

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A file is in use while a process of its job's group lives: not while another group has the number, or only dead ones
// are in it, which nobody waits for.
func TestOwnerFileTellsTheJobFromAnother(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	file := filepath.Join(t.TempDir(), "owner")
	killed(t, d, "-owner-file", file, "a")
	right := recordOf(t, file)
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
		clitest.Eventually(t, "the leader dead", func() bool { return stateOf(ended.Process.Pid) == "Z" })
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
			write(t, file, right, func(r *ownerfile.Record) { r.Job, r.Machine = test.job, machine })
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
