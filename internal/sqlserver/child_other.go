//go:build unix && !linux

package sqlserver

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the server.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
