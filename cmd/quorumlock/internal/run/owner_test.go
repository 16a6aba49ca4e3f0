//go:build unix

package run

import (
	"encoding/json"
	"fmt"
	"os"
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

const sleeps = "echo child=$$; echo ready; exec sleep 600"

// killed starts run with a job, kills run alone, and waits until the job is dead, too.
func killed(t *testing.T, d *clitest.Deployment, args ...string) {
	t.Helper()
	p := d.Start(t, append(args, "--", "sh", "-c", sleeps)...)
	p.Send(t, syscall.SIGKILL)
	<-p.Exited
	child := p.Number(t, "child")
	_ = syscall.Kill(-child, syscall.SIGKILL) // as a unit or a container does, and Linux for the one process
	clitest.Eventually(t, "the job dead", func() bool { return !alive(child) })
}

// recordOf returns what an owner file says.
func recordOf(t *testing.T, file string) (r ownerfile.Record) {
	t.Helper()
	testkit.Must(t, json.Unmarshal([]byte(testkit.Read(t, file)), &r))
	return r
}

// write writes the record as a run would, and as forge changes it.
func write(t *testing.T, file string, r ownerfile.Record, forge func(*ownerfile.Record)) {
	t.Helper()
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	var stat syscall.Stat_t
	testkit.Must(t, syscall.Stat(file, &stat))
	r.File = fmt.Sprint(stat.Dev, ":", stat.Ino)
	forge(&r)
	text, err := json.Marshal(r)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(file, append(text, '\n'), 0o600))
}

func isGone(t *testing.T, path string) {
	t.Helper()
	left, _ := filepath.Glob(path + "*")
	testkit.Check(t, len(left) == 0, "left behind: %q", left)
}

// A file that isn't run's stays as it is, and nothing is run. The file of an owner who may be alive elsewhere, or holds a
// lock elsewhere, releases nothing: run goes on without it.
func TestOwnerFileThatReleasesNothing(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	flags, file := d.Flags(t), filepath.Join(t.TempDir(), "owner")
	killed(t, d, "-owner-file", file, "a")
	right := recordOf(t, file)
	for _, text := range []string{"root:x:0:0\n", "{}", `{"owner":"","names":["a"],"slot":-1,"masters":["x"]}` + "\n",
		`{"owner":"x:1","names":["a","b"],"slots":1,"slot":0,"masters":["x"]}` + "\n",
		`{"owner":"x:1","names":["quorumlock:marker"],"slot":-1,"masters":["x"]}` + "\n",
		`{"owner":"x:1","names":["a"],"slot":-1,"masters":["x"],"job":{"group":1}}` + "\n"} {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		_, errs := d.Run(t, cli.ExitConfiguration, "-n", "-owner-file", file, "other", "--", "echo", "ran")
		clitest.Contains(t, errs, file, "it is no owner file of quorumlock run")
		_, errs = clitest.Ask(t, cli.ExitConfiguration, "unlock", flags, "-yes", "-owner-file", file)
		clitest.Contains(t, errs, file, "it is no owner file of quorumlock run")
		testkit.Equal(t, testkit.Read(t, file), text, "the file")
	}
	_, errs := d.Run(t, cli.ExitLockUsage, "-owner-file", file, "\xff", "--", "true")
	clitest.Contains(t, errs, "which is not UTF-8")
	for _, args := range [][]string{{"-owner-file", file, "a"}, {"-owner-file", file, "-slot", "1"}, {"-owner-file", file, "-owner", "x:1"}} {
		_, errs := clitest.Ask(t, cli.ExitLockUsage, "unlock", flags, append([]string{"-yes"}, args...)...)
		clitest.Contains(t, errs, "-owner-file has the ")
	}
	link := filepath.Join(filepath.Dir(file), "link")
	testkit.Must(t, os.Symlink(file, link))
	fifo := filepath.Join(filepath.Dir(file), "fifo") // no device of this machine: as root, a bug would write to it or delete it
	testkit.Must(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{fifo, filepath.Dir(file), file + "/none", link} {
		_, errs := d.Run(t, cli.ExitConfiguration, "-n", "-owner-file", path, "other", "--", "echo", "ran")
		clitest.Contains(t, errs, "the owner file", path)
	}
	for says, forge := range map[string]func(*ownerfile.Record){
		"it was written on another machine, or before this one was restarted":     func(r *ownerfile.Record) { r.Machine = "another" },
		"it is a copy: the run that wrote the original, or its job, may be alive": func(r *ownerfile.Record) { r.File = "another" },
		`its lock is on other masters: ["elsewhere:6379"]`:                        func(r *ownerfile.Record) { r.Masters = []string{"elsewhere:6379"} },
	} {
		write(t, file, right, forge)
		_, errs := clitest.Ask(t, cli.ExitConfiguration, "unlock", flags, "-yes", "-owner-file", file)
		clitest.Contains(t, errs, file, says)
		_, errs = d.Run(t, cli.ExitOK, "-n", "-owner-file", file, "other", "--", "true")
		clitest.Contains(t, errs, "the lock of the owner in", file, "is not released: "+says)
		isGone(t, file)
	}
	d.Run(t, cli.ExitHeld, "-n", "a", "--", "true")
	write(t, file, right, func(*ownerfile.Record) {}) // the control
	d.Run(t, cli.ExitOK, "-n", "-owner-file", file, "a", "--", "true")
}

// A job keeps the file in use whatever it does with descriptors, and so does a run within a run; what the caller has at
// descriptor 3 is the job's.
func TestTheJobKeepsTheOwnerFileInUse(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	dir := t.TempDir()
	file, inner, log := filepath.Join(dir, "owner"), filepath.Join(dir, "inner"), filepath.Join(dir, "log")
	nested := append([]string{"run"}, append(d.Flags(t), "-owner-file", inner, "b")...)
	// As Python, Ruby and Java start processes: without the descriptors that they inherit.
	closing := "(for n in {3..255}; do eval \"exec $n>&-\"; done; exec sleep 600) & echo orphan=$!; echo ready; wait"
	for what, job := range map[string][]string{
		"descriptor 3 is used":       {"sh", "-c", "exec 3>" + log + "; sleep 600 & echo orphan=$!; echo ready; wait"},
		"descriptor 200, as flock's": {"bash", "-c", "exec 200>" + log + "; flock 200; sleep 600 & echo orphan=$!; echo ready; wait"},
		"closed in its children":     {"bash", "-c", closing},
		"a run in a run":             append(append([]string{os.Args[0]}, nested...), "--", "sh", "-c", "sleep 600 & echo orphan=$!; echo ready; wait"),
	} {
		p := d.Start(t, append([]string{"-owner-file", file, "a", "--"}, job...)...)
		orphan := p.Number(t, "orphan")
		p.Send(t, syscall.SIGKILL)
		<-p.Exited
		_, errs := d.Run(t, cli.ExitHeld, "-n", "-owner-file", file, "a", "--", "true")
		clitest.Contains(t, errs, "it is in use")
		testkit.Check(t, alive(orphan), "%s: the orphan is dead: the test shows nothing", what)
		_ = syscall.Kill(orphan, syscall.SIGKILL)
		clitest.Eventually(t, what+": the file free", func() bool {
			_, _, code := clitest.Patiently(append(append([]string{"unlock"}, d.Flags(t)...), "-yes", "-owner-file", file))
			return code == cli.ExitOK
		})
	}
}

// What a job that has ended leaves behind is its own affair, also if its lock could not be released.
func TestOwnerFileOfAJobThatHasEnded(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	file := filepath.Join(t.TempDir(), "owner")
	end := filepath.Join(t.TempDir(), "end")
	p := d.Start(t, "-owner-file", file, "a", "--", "sh", "-c",
		"sleep 600 >/dev/null 2>&1 & echo behind=$!; echo ready; until [ -e "+end+" ]; do sleep 0.02; done")
	behind := p.Number(t, "behind")
	defer syscall.Kill(behind, syscall.SIGKILL)
	for _, m := range d.Masters[:2] {
		testkit.Must(t, m.Freeze())
	}
	testkit.Must(t, os.WriteFile(end, nil, 0o600))
	p.Ends(t, cli.ExitOK, "too few masters confirmed the release")
	for _, m := range d.Masters[:2] {
		testkit.Must(t, m.Thaw())
	}
	_, errs := d.Run(t, cli.ExitOK, "-n", "-owner-file", file, "a", "--", "true")
	clitest.Contains(t, errs, "released the lock of ")
	testkit.Check(t, alive(behind), "what the job left behind is dead: the test shows nothing")
}

// What another user may have written is not used: whoever may write to a file of root's unlock could have a live job's
// lock freed.
func TestOwnerFileThatOthersMayWrite(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	flags, dir := d.Flags(t), t.TempDir()
	file, live := filepath.Join(dir, "owner"), filepath.Join(dir, "live")
	d.Start(t, "-owner-file", live, "a", "--", "sh", "-c", sleeps)
	forged := recordOf(t, live)
	forged.Job = ownerfile.Job{}
	for says, spoil := range map[string]func() error{
		"others may write to it, with the mode 0666": func() error { return os.Chmod(file, 0o666) },
		"others may write to it, with the mode 0620": func() error { return os.Chmod(file, 0o620) },
		"it has another name":                        func() error { return os.Link(file, file+".link") },
		"it belongs to user 65534":                   func() error { return os.Chown(file, 65534, 65534) },
	} {
		write(t, file, forged, func(*ownerfile.Record) {})
		if err := spoil(); os.Getuid() != 0 && err != nil {
			t.Logf("SKIPPED, needs root: %s", says)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for _, yes := range [][]string{nil, {"-yes"}} {
			_, errs := clitest.Ask(t, cli.ExitConfiguration, "unlock", flags, append(yes, "-owner-file", file)...)
			clitest.Contains(t, errs, file, says)
		}
		_, errs := d.Run(t, cli.ExitConfiguration, "-n", "-owner-file", file, "other", "--", "echo", "ran")
		clitest.Contains(t, errs, file, says)
		testkit.Must(t, os.Remove(file))
		_ = os.Remove(file + ".link")
	}
	d.Run(t, cli.ExitHeld, "-n", "a", "--", "true")
	write(t, file, forged, func(*ownerfile.Record) {}) // the control
	clitest.Ask(t, cli.ExitOK, "unlock", flags, "-yes", "-owner-file", file)
	d.Run(t, cli.ExitOK, "-n", "a", "--", "true")
}

// The locker is in the file while run waits: if run is killed as it gets the lock, what its locker has is released.
func TestOwnerFileBeforeTheLock(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	flags, file := d.Flags(t), filepath.Join(t.TempDir(), "owner")
	for _, lock := range [][]string{{"a,b"}, {"-slots", "1", "s"}} {
		withFile := append([]string{"-owner-file", file, "-lease", "10m"}, lock...)
		holder := d.Start(t, append(lock, "--", "sh", "-c", "echo ready; exec sleep 600")...)
		p := d.Prepare(append(withFile, "--", "sh", "-c", sleeps)...).Begin(t)
		p.Eventually(t, "a record", func() bool { text, _ := os.ReadFile(file); return len(text) > 0 })
		waiting := recordOf(t, file)
		testkit.Check(t, waiting.Slot == -1 && waiting.Job.Group == 0, "while it waits, the file says %+v", waiting)
		holder.Send(t, syscall.SIGTERM)
		p.AwaitOutput(t, "ready\n")
		held := recordOf(t, file)
		testkit.Check(t, strings.HasPrefix(held.Owner, waiting.Owner+":") && held.Job.Group == p.Number(t, "child"),
			"while it waited, the file said %+v, and then %+v", waiting, held)
		p.Send(t, syscall.SIGKILL)
		<-p.Exited
		write(t, file, waiting, func(*ownerfile.Record) {})
		d.Run(t, cli.ExitHeld, append(append([]string{"-n"}, lock...), "--", "true")...)
		_, errs := d.Run(t, cli.ExitOK, append(append([]string{"-n"}, withFile...), "--", "true")...)
		clitest.Contains(t, errs, "released the lock of", waiting.Owner)
		isGone(t, file)

		killed(t, d, withFile...)
		dead := recordOf(t, file)
		write(t, file, waiting, func(r *ownerfile.Record) { r.Owner, _, _ = strings.Cut(dead.Owner, ":") })
		out, _ := clitest.Ask(t, cli.ExitOK, "unlock", flags, "-yes", "-owner-file", file)
		clitest.Contains(t, out, "unlocked: ", dead.Owner)
		d.Run(t, cli.ExitOK, append(append([]string{"-n"}, lock...), "--", "true")...)
		isGone(t, file)
	}
}
