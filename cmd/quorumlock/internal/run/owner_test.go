//go:build unix

package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
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

// run that is started with the file of a run that was killed has the lock at once. After unlock with that file nothing of
// the dead owner's is left on any master.
func TestOwnerFileFreesTheLockOfADeadRun(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	flags := d.Flags(t)
	for what, test := range map[string]struct {
		lock []string
		keys []string
	}{
		"names":   {[]string{"a,b"}, []string{"a", "b"}},
		"a slot":  {[]string{"-slots", "1", "s"}, []string{scripts.SlotName("s", 0)}},
		"-all":    {[]string{"-all", "c"}, []string{"c"}},
		"no wait": {[]string{"-w", "0", "e"}, []string{"e"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "owner")
			withFile := append([]string{"-owner-file", file, "-lease", "10m"}, test.lock...) // longer than a test waits
			killed(t, d, withFile...)
			dead := recordOf(t, file)
			info, err := os.Stat(file)
			testkit.Check(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
			without := append([]string{"-n"}, test.lock...)
			if test.lock[0] == "-w" {
				without = append([]string{"-n"}, test.lock[2:]...)
			}
			d.Run(t, cli.ExitHeld, append(without, "--", "true")...)

			job := fmt.Sprintf(`cat %s; for key in "$@"; do echo "$key"; done`, file)
			out, errs := d.Run(t, cli.ExitOK, append(withFile, "--", "sh", "-c", job)...)
			testkit.Check(t, !strings.Contains(out, dead.Owner) && strings.Contains(out, `"owner":"`) &&
				strings.Contains(errs, "released the lock of"), "while the second ran, the file said %q; errors %q", out, errs)
			isGone(t, file)

			killed(t, d, withFile...)
			shown, asked := clitest.Ask(t, cli.ExitLockUsage, "unlock", flags, "-owner-file", file)
			clitest.Contains(t, asked, " is held ", "To do it: the same command with -yes.\n")
			out, _ = clitest.Ask(t, cli.ExitOK, "unlock", flags, "-yes", "-owner-file", file)
			n := strings.Count(out, "unlocked: ")
			testkit.Check(t, n == len(test.keys) && shown == "", "unlock printed %q, %q", shown, out)
			for _, m := range d.Masters {
				for _, key := range test.keys {
					testkit.Equal(t, testkit.Do(t, m, "EXISTS", key), any(int64(0)), key+" on "+m.Addr())
				}
			}
			isGone(t, file)
			d.Run(t, cli.ExitOK, append(without, "--", "true")...)
			out, _ = clitest.Ask(t, cli.ExitOK, "unlock", flags, "-yes", "-owner-file", file)
			clitest.Contains(t, out, "nothing to unlock: there is no file")
		})
	}
}

// The file of a run that is alive is refused, also while that one waits; and so is the file of one that is dead, if its job
// is alive. Nothing is released.
func TestOwnerFileThatIsInUse(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	flags, dir := d.Flags(t), t.TempDir()
	file, waiting := filepath.Join(dir, "owner"), filepath.Join(dir, "waiting")
	p := d.Start(t, "-owner-file", file, "a", "--", "sh", "-c", `sh -c 'trap "" TERM; exec sleep 600' & echo grandchild=$!; `+sleeps)
	w := d.Prepare("-owner-file", waiting, "a", "--", "true").Begin(t)
	clitest.Eventually(t, "the waiting one's file", func() bool { _, err := os.Stat(waiting); return err == nil })
	refused := func() {
		t.Helper()
		for _, file := range []string{file, waiting} {
			for _, wait := range []string{"-n", "-w=1h"} {
				_, errs := d.Run(t, cli.ExitHeld, wait, "-owner-file", file, "other", "--", "echo", "ran")
				clitest.Contains(t, errs, file, "it is in use: the run that wrote it, or a process of its job, is alive")
			}
			out, errs := d.Run(t, cli.ExitOK, "-n", "-E", "0", "-owner-file", file, "other", "--", "echo", "ran")
			clitest.Contains(t, errs, file, "it is in use")
			testkit.Check(t, out == "", "with -E 0 it printed %q", out)
			_, errs = clitest.Ask(t, cli.ExitHeld, "unlock", flags, "-yes", "-owner-file", file)
			clitest.Contains(t, errs, file, "it is in use")
		}
		d.Run(t, cli.ExitHeld, "-n", "a", "--", "true")
	}
	refused()
	p.Send(t, syscall.SIGKILL)
	<-p.Exited
	refused() // the grandchild is alive
	testkit.Must(t, syscall.Kill(p.Number(t, "grandchild"), syscall.SIGKILL))
	_ = syscall.Kill(p.Number(t, "child"), syscall.SIGKILL) // unless the system has done so
	clitest.Eventually(t, "the lock released by the file", func() bool {
		out, _, code := clitest.Patiently(append(append([]string{"unlock"}, flags...), "-yes", "-owner-file", file))
		return code == cli.ExitOK && strings.Contains(out.String(), `unlocked: "a" was held`)
	})
	w.Await(t, cli.ExitOK)
	isGone(t, waiting)
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

// A minority of masters that are down does no harm. With too few masters the file stays for the next run.
func TestOwnerFileWhileMastersAreDown(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 10*time.Minute)
	file := filepath.Join(t.TempDir(), "owner")
	killed(t, d, "-owner-file", file, "a")
	testkit.Must(t, d.Masters[0].Kill())
	testkit.Must(t, d.Masters[1].Freeze())
	dead := recordOf(t, file)
	p := d.Prepare("-n", "-owner-file", file, "a", "--", "true").Begin(t)
	p.Await(t, cli.ExitUnavailable)
	clitest.Contains(t, p.Errs.String(), "the lock of the owner in", file, "is not released: ")
	left := recordOf(t, file)
	testkit.Check(t, left.Owner == dead.Owner, "the file says %+v, not %+v", left, dead)
	testkit.Must(t, d.Masters[1].Thaw())
	d.Run(t, cli.ExitOK, "-n", "-owner-file", file, "a", "--", "true")
	isGone(t, file)
}

// The file is there from before the command starts until the lock is released. It doesn't free the rest of a min hold.
func TestOwnerFileOfAMinHold(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	file := filepath.Join(t.TempDir(), "owner")
	p := d.Start(t, "-owner-file", file, "-min-hold", "1h", "a", "--", "sh", "-c", "cat "+file+" && echo ready")
	p.Eventually(t, "no file", func() bool { _, err := os.Stat(file); return err != nil })
	p.Send(t, syscall.SIGKILL)
	<-p.Exited
	d.Run(t, cli.ExitHeld, "-n", "-owner-file", file, "a", "--", "true")
	isGone(t, file)
}

// What masters keep of a lock that was lost is released by the file.
func TestOwnerFileOfALostLock(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 3*time.Second)
	file := filepath.Join(t.TempDir(), "owner")
	p := d.Start(t, "-owner-file", file, "a", "--", "sh", "-c", sleeps)
	for _, m := range d.Masters {
		testkit.Do(t, m, "DEL", "a")
	}
	d.Run(t, cli.ExitOK, "-n", "a", "--", "true")
	p.Await(t, cli.ExitEnded)
	clitest.Ask(t, cli.ExitOK, "unlock", d.Flags(t), "-yes", "-owner-file", file)
	isGone(t, file)
}

// A file that cannot be written is an error, and the command isn't started.
func TestOwnerFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	file := filepath.Join(t.TempDir(), "owner")
	holder := d.Start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	p := d.Prepare("-owner-file", file, "a", "--", "echo", "ran").Begin(t)
	p.Eventually(t, "a waiter, which has the file", func() bool { return waiters(t, d, "a") > 0 })
	testkit.Must(t, os.Remove(file))
	testkit.Must(t, os.Mkdir(file, 0o700))
	holder.Send(t, syscall.SIGTERM)
	p.Await(t, cli.ExitConfiguration)
	clitest.Contains(t, p.Errs.String(), "the command was not started: ", file)
	testkit.Check(t, p.Out.String() == "", "it printed %q", &p.Out)
	left, _ := filepath.Glob(file + ".*")
	testkit.Check(t, len(left) == 0, "left behind: %q", left)
	d.Run(t, cli.ExitOK, "-n", "a", "--", "true")
}

// The lines of the documents do what is said: ExecStopPost frees the lock of a run that was killed, and does nothing after
// one that ended.
func TestTheLinesOfTheUnitFreeTheLock(t *testing.T) {
	t.Parallel()
	page := testkit.Read(t, filepath.Join("..", "..", "..", "..", "docs", "operations.md"))
	d := clitest.Deploy(t, 3, 10*time.Minute)
	dir := t.TempDir()
	line := func(setting, job string) string {
		found := regexp.MustCompile(`(?m)^    `+setting+`=-?(/usr/bin/quorumlock .*-owner-file .*)$`).FindAllStringSubmatch(page, -1)
		if len(found) != 1 {
			t.Fatalf("%s: %q", setting, found)
		}
		return strings.NewReplacer("/usr/bin/quorumlock run", "exec '"+os.Args[0]+"' run -timeout 2s -max-lease 10m",
			"/usr/bin/quorumlock unlock", "exec '"+os.Args[0]+"' unlock -timeout 2s -max-lease 10m",
			"/run/worker", dir, "/usr/bin/worker", job).Replace(found[0][1])
	}
	start := func(line string) *clitest.Process {
		p := clitest.NewProcess("/bin/sh", "-c", line)
		p.Env = append(p.Env, masters.URLsVariable+"="+strings.Join(d.URLs(), ","))
		return p.Begin(t)
	}
	begin, stopped := line("ExecStart", "sh -c '"+sleeps+"'"), line("ExecStopPost", "")
	p := start(begin)
	p.AwaitOutput(t, "ready\n")
	start(stopped).Await(t, cli.ExitHeld) // it is alive: a hook that comes too early frees nothing
	p.Send(t, syscall.SIGKILL)
	<-p.Exited
	_ = syscall.Kill(-p.Number(t, "child"), syscall.SIGKILL)
	clitest.Eventually(t, "the job dead", func() bool { return !alive(p.Number(t, "child")) })
	d.Run(t, cli.ExitHeld, "-n", "worker", "--", "true")
	post := start(stopped)
	post.Await(t, cli.ExitOK)
	clitest.Contains(t, post.Out.String(), `unlocked: "worker" was held`)
	d.Run(t, cli.ExitOK, "-n", "worker", "--", "true")

	start(line("ExecStart", "true")).Await(t, cli.ExitOK)
	start(stopped).Await(t, cli.ExitOK)
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

// Neither run nor unlock touches a file whose name begins like the owner file's, and who only looks removes nothing.
func TestOwnerFilesNeighboursStay(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	file := filepath.Join(t.TempDir(), "owner")
	testkit.Must(t, os.WriteFile(file+".new", []byte("precious"), 0o600))
	d.Run(t, cli.ExitOK, "-n", "-owner-file", file, "a", "--", "true")
	testkit.Equal(t, testkit.Read(t, file+".new"), "precious", "the neighbour")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	for _, yes := range [][]string{nil, {"-yes"}} {
		out, _ := clitest.Ask(t, cli.ExitOK, "unlock", d.Flags(t), append(yes, "-owner-file", file)...)
		clitest.Contains(t, out, "nothing to unlock: no owner in")
		_, err := os.Stat(file)
		testkit.Is(t, err, nil, "the file")
	}
}

// A limit that leaves no descriptor to the job is found before others wait for the lock.
func TestOwnerFileWithFewDescriptors(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	file := filepath.Join(t.TempDir(), "owner")
	limited := func(limit string, args ...string) *clitest.Process {
		p := d.Prepare(append([]string{"-owner-file", file}, args...)...)
		p.Path, p.Args = "/bin/sh", append([]string{"sh", "-c", "ulimit -n " + limit + `; exec "$@"`, "sh"}, p.Args...)
		return p.Begin(t)
	}
	limited("128", "-n", "a", "--", "true").Ends(t, cli.ExitOK)
	d.Start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	limited("64", "a", "--", "true").Ends(t, cli.ExitConfiguration, "the owner file", "(ulimit -n)")
	isGone(t, file)
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
