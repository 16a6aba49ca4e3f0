//go:build unix

package redistest_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestStopEndsAFrozenProcess(t *testing.T) {
	m := testkit.Real(t, 1).Masters[0]
	pid := testkit.Got(strconv.Atoi(testkit.Info(t, m, "server", "process_id")))(t)
	testkit.Must(t, syscall.Kill(pid, 0)) // signal 0 finds a running process
	testkit.Must(t, m.Freeze())
	testkit.Must(t, m.Stop())
	testkit.Is(t, syscall.Kill(pid, 0), syscall.ESRCH, "the process after Stop")
	testkit.Must(t, m.Stop())
}
