package redistest

import "syscall"

const (
	freezeSignal = syscall.SIGSTOP
	thawSignal   = syscall.SIGCONT
)

// childAttributes make the child die with the thread that forked it (see starter), so
// that it outlives this process under no circumstances, and keep a terminal's Ctrl-C
// from it, which would take the masters away before the program has cleaned up.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
