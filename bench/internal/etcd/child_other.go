//go:build unix && !linux

package etcd

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the member.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
