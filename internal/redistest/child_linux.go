package redistest

import "syscall"

const (
	freezeSignal = syscall.SIGSTOP
	thawSignal   = syscall.SIGCONT
)

// childAttributes make the child die with the thread that forked it (see starter), so that it never
// outlives this process. They also keep a terminal's Ctrl-C from it: the masters must outlive the
// program's cleanup.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
