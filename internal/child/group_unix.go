//go:build unix

package child

import (
	"cmp"
	"strings"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Alive reports whether a process runs: one that has ended and was not waited for does not.
func Alive(pid int) bool {
	return syscall.Kill(pid, 0) == nil && !strings.Contains("Z X", cmp.Or(State(pid), "unknown"))
}
