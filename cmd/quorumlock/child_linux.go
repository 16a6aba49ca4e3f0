package main

import "syscall"

// childAttributes make the child lead a process group, and die with the thread that forked it, and
// so with this process, however that ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
