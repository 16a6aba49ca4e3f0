//go:build unix

package run

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/locks"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: append([]cli.Command{Command, masters.Check, masters.Admit}, locks.Commands...)})
}

// alive reports whether a process runs: one that has ended and was not waited for does not.
func alive(pid int) bool {
	return syscall.Kill(pid, 0) == nil && !strings.Contains("Z X", cmp.Or(stateOf(pid), "unknown"))
}

// stateOf returns the letter of a process's state, if there is a /proc: T is stopped, Z a zombie.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ") // "pid (name) state parent ..."
	state, _, _ := strings.Cut(rest, " ")
	return state
}
