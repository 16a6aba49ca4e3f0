//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/containers"
	"github.com/quorumlock/quorumlock/internal/child"
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
	if _, can := lab.backend.(*engines); can {
		backends = append(backends, "containers")
	}
	for _, backend := range backends {
		t.Run(backend+", Ctrl-C while a master is frozen", func(t *testing.T) { crash(t, backend, "frozen", "pause", false) })
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
	said, err := cmd.StdoutPipe()
	testkit.Must(t, err)
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
		if !met && strings.Contains(line, " "+fault+" ") {
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
	ended := time.Now()
	for {
		left := leftOf(dir, run)
		if len(left) == 0 {
			t.Logf("nothing is left %v after its end", time.Since(ended).Round(time.Millisecond))
			return
		}
		if time.Since(ended) > cleanBound {
			t.Fatalf("left behind: %q", left)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// leftOf lists the leftovers of a run: its directory, processes that run or work in it, and the
// engine's objects.
func leftOf(dir, run string) (all []string) {
	if _, err := os.Stat(dir); err == nil {
		all = append(all, dir)
	}
	for _, link := range []string{"exe", "cwd"} {
		found, _ := filepath.Glob("/proc/[0-9]*/" + link)
		for _, path := range found {
			if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, dir+"/") {
				all = append(all, path+" → "+to)
			}
		}
	}
	if run != noRun {
		left, err := containers.Left(run)
		if err != nil {
			left = append(left, err.Error())
		}
		all = append(all, left...)
	}
	return all
}
