//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// panicAt names, in the environment, the kind of fault at which a run panics.
const panicAt = "QUORUMLOCK_CHAOS_PANIC"

const (
	crashBound = 60 * time.Second // from a run's start to the fault: an image may have to be pulled or built
	cleanBound = 30 * time.Second // from a run's end until nothing of it may be left
)

// TestCleanUp ends runs in the middle of a fault, by Ctrl-C and by a panic, and searches for
// leftovers.
func TestCleanUp(t *testing.T) {
	if !*full {
		t.Skip("only with -chaos.full")
	}
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, needs /proc, and servers that die with their parent")
	}
	backends := []string{"processes"}
	if inside.Of(lab.backend).Run != "" {
		backends = append(backends, "containers")
	}
	for _, backend := range backends {
		t.Run(backend+", Ctrl-C while a master is frozen", func(t *testing.T) { crash(t, backend, "frozen", "Freeze(0)", false) })
		t.Run(backend+", a panic while a client is stopped", func(t *testing.T) { crash(t, backend, "client paused", "SIGSTOP", true) })
	}
}

// crash ends a run of a scenario at a fault.
func crash(t *testing.T, backend, scenario, fault string, panics bool) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "TestChaos/"+scenario, "-chaos.backend="+backend, "-chaos.masters=3")
	cmd.Env = os.Environ()
	if panics {
		cmd.Env = append(cmd.Env, panicAt+"="+fault)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	printed := &child.Output{}
	cmd.Stderr = printed
	said := testkit.Got(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	late := time.AfterFunc(crashBound, func() { cmd.Process.Kill() })
	defer late.Stop()
	var dir, run string
	met := false
	for lines := bufio.NewScanner(printed.Tee(said)); lines.Scan(); {
		line := lines.Text()
		if dir == "" {
			_, _ = fmt.Sscanf(line, startLine, &dir, &run)
		}
		if !met && strings.Contains(line, " "+fault) {
			met = true
			if !panics {
				if there := leftOf(dir, run); len(there) < 5 { // the directory, three masters, a client
					t.Errorf("the run is under way, and only %q exist of it", there)
				}
				// The group, as a terminal does.
				if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if err := cmd.Wait(); err == nil || !met || dir == "" {
		t.Fatalf("the run must end in the middle: %v; reached %q: %v, directory %q; %v", err, fault, met, dir, printed)
	}
	var left []string
	if !poll.Until(cleanBound, func() bool { left = leftOf(dir, run); return len(left) == 0 }) {
		t.Fatalf("left behind: %q", left)
	}
}

// leftOf lists the leftovers of a run: its directory, processes that run or work in it, and the
// engine's objects.
func leftOf(dir, run string) (all []string) {
	if _, err := os.Stat(dir); err == nil {
		all = append(all, dir)
	}
	all = slices.Concat(all, inProc(dir, "exe"), inProc(dir, "cwd"))
	if run != noRun {
		left, err := inside.Of(lab.backend).LeftOf(run)
		if err != nil {
			left = append(left, err.Error())
		}
		all = append(all, left...)
	}
	return all
}

// inProc returns the links of that name in /proc that lead into the directory, one for each process.
func inProc(dir, link string) []string {
	found, _ := filepath.Glob("/proc/[0-9]*/" + link)
	return slices.DeleteFunc(found, func(path string) bool {
		to, err := os.Readlink(path)
		return err != nil || !strings.HasPrefix(to, dir+"/")
	})
}

// scratchOf names, in the environment, the directory that a copy of the test binary removes after
// this process.
const scratchOf = "QUORUMLOCK_CHAOS_SCRATCH"

// scratch is a directory for everything that is written: programs, histories, masters' disks.
type scratch struct {
	dir     string
	outside string // where kept directories go
	janitor *child.Janitor
}

func openScratch() (*scratch, error) {
	s := &scratch{outside: os.TempDir()}
	var err error
	if s.dir, err = os.MkdirTemp("", "quorumlock-chaos-"); err != nil {
		return nil, err
	}
	if s.janitor, err = child.StartJanitor(scratchOf, s.dir); err != nil {
		return nil, err
	}
	return s, os.Setenv("TMPDIR", s.dir) // for every temporary file from here on
}

// keep moves a directory out of the scratch directory, and returns its new path.
func (s *scratch) keep(dir string) (string, error) {
	to, err := os.MkdirTemp(s.outside, "quorumlock-histories-")
	if err != nil {
		return dir, err
	}
	to = filepath.Join(to, filepath.Base(dir))
	return to, os.Rename(dir, to)
}

// endStrays kills contenders that outlive their parent, if /proc shows them. The kernel sends
// SIGHUP only to processes that had stopped before their parent died: one that was about to stop is
// stopped for ever.
func endStrays(dir string) {
	for _, path := range inProc(dir, "exe") {
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// clean removes the scratch directory of a process that has ended. Its contenders and masters may still be writing.
func clean(dir, _ string) (err error) {
	poll.Until(5*time.Second, func() bool {
		endStrays(dir)
		if err = os.RemoveAll(dir); err != nil {
			return false
		}
		if _, gone := os.Stat(dir); !os.IsNotExist(gone) {
			err = fmt.Errorf("%s is there again", dir)
		}
		return err == nil
	})
	return err
}
