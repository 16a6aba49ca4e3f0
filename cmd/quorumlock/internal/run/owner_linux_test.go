package run

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
		text, err := json.Marshal(r)
		testkit.Must(t, err)
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
