//go:build unix

package redistest_test

import (
	"errors"
	"strconv"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestStopEndsAFrozenProcess(t *testing.T) {
	m := testkit.Real(t, 1).Masters[0]
	pid, err := strconv.Atoi(testkit.Info(t, m, "server", "process_id"))
	testkit.Must(t, err)
	testkit.Must(t, syscall.Kill(pid, 0)) // signal 0 finds a running process
	testkit.Must(t, m.Freeze())
	testkit.Must(t, m.Stop())
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d after Stop: %v, want none", pid, err)
	}
	testkit.Must(t, m.Stop())
}
