package etcd

import "syscall"

// childAttributes make the member die with the thread that started it, and keep a terminal's Ctrl-C from it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
