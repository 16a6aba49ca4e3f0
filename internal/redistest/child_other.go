//go:build unix && !linux

package redistest

import "syscall"

const (
	freezeSignal = syscall.SIGSTOP
	thawSignal   = syscall.SIGCONT
)

// childAttributes keep a terminal's Ctrl-C from the child: the masters must outlive the program's
// cleanup. There is no death signal here: children outlive a killed parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
