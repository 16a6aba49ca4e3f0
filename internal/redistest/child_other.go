//go:build unix && !linux

package redistest

import "syscall"

const (
	freezeSignal = syscall.SIGSTOP
	thawSignal   = syscall.SIGCONT
)

// childAttributes keep a terminal's Ctrl-C from the child, which would take the masters
// away before the program has cleaned up. There is no death signal here: children
// outlive a killed parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
