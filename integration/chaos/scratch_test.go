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

// scratchOf names, in the environment, the directory that a copy of the test binary is to remove when this process is gone.
const scratchOf = "QUORUMLOCK_CHAOS_SCRATCH"

// scratch is a directory for all that is written: programs, histories, masters' disks. A second process removes it in the end,
// whatever that is.
type scratch struct {
	dir     string
	outside string // where what must stay is moved
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
	s.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the tests
	if s.alive, err = s.janitor.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.janitor.Start(); err != nil {
		return nil, err
	}
	return s, os.Setenv("TMPDIR", s.dir) // for whatever makes a temporary file from here on
}

func (s *scratch) close() error {
	s.alive.Close()
	return s.janitor.Wait()
}

// keep moves a directory to where it stays, and returns where that is.
func (s *scratch) keep(dir string) (string, error) {
	to, err := os.MkdirTemp(s.outside, "quorumlock-histories-")
	if err != nil {
		return dir, err
	}
	to = filepath.Join(to, filepath.Base(dir))
	return to, os.Rename(dir, to)
}

// endStrays kills contenders that outlive the process that started them, where /proc tells: one that was about to stop when that
// died is stopped for ever, since the kernel sends SIGHUP only to those that had stopped.
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

// cleanIfAsked makes this process the janitor of another, and ends it, when its environment says so; else it does nothing.
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
