package run

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes make the child lead a process group, and die with the thread that forked it, and
// so with this process, however that ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of descendants that are orphaned from now on.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
