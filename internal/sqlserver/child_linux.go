package sqlserver

import "syscall"

// childAttributes make the server end with the thread that started it, and keep a terminal's Ctrl-C
// from it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
}
