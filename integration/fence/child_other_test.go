//go:build unix && !linux

package fence_test

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the server.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
