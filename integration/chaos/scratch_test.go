//go:build unix

package chaos

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// scratchOf names, in the environment, the directory that a copy of the test binary removes after
// this process.
const scratchOf = "QUORUMLOCK_CHAOS_SCRATCH"

// scratch is a directory for everything that is written: programs, histories, masters' disks. A
// second process, the janitor, removes it after the end of this one, however that comes.
type scratch struct {
	dir     string
	outside string // where kept directories go
	janitor *exec.Cmd
	alive   io.Closer // the janitor's standard input
}

func openScratch() (*scratch, error) {
	s := &scratch{outside: os.TempDir()}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "quorumlock-chaos-"); err != nil {
		return nil, err
	}
	s.janitor = exec.Command(self)
	s.janitor.Env = append(os.Environ(), scratchOf+"="+s.dir)
	s.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the tests only
	if s.alive, err = s.janitor.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.janitor.Start(); err != nil {
		return nil, err
	}
	return s, os.Setenv("TMPDIR", s.dir) // for every temporary file from here on
}

func (s *scratch) close() error {
	s.alive.Close()
	return s.janitor.Wait()
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
	found, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, path := range found {
		to, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(to, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// cleanIfAsked turns this process into the janitor of another one, and then exits, when its
// environment asks for that.
func cleanIfAsked() {
	dir := os.Getenv(scratchOf)
	if dir == "" {
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	// Contenders and masters that die with the other process may still be writing.
	for late := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		endStrays(dir)
		err := os.RemoveAll(dir)
		if _, gone := os.Stat(dir); err == nil && os.IsNotExist(gone) {
			os.Exit(0)
		}
		if time.Now().After(late) {
			fmt.Fprintln(os.Stderr, "chaos: cleaning up:", err)
			os.Exit(1)
		}
	}
}
