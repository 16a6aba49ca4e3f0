//go:build unix && !linux

package run

import "syscall"

// childAttributes make the child lead a process group. There is no death signal here: the child
// outlives this process if that is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adoptOrphans does nothing here: orphans are init's.
func adoptOrphans() {}
