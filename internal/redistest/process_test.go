//go:build unix

package redistest_test

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestProcessWithPersistenceKeepsItsKeys(t *testing.T) {
	m := testkit.Real(t, 1, "--appendonly", "yes", "--appendfsync", "always").Masters[0]
	runID := testkit.Info(t, m, "server", "run_id")
	mustDo(t, m, "SET", "k", "v")
	testkit.Must(t, m.Kill())
	testkit.Must(t, m.Start())
	if v := mustDo(t, m, "GET", "k"); v != "v" {
		t.Errorf("after a restart: %q", v)
	}
	if now := testkit.Info(t, m, "server", "run_id"); now == runID {
		t.Error("the run id survived")
	}
}

func TestFrozenProcessAnswersOnlyOnceThawed(t *testing.T) {
	m := testkit.Real(t, 1).Masters[0]
	runID := testkit.Info(t, m, "server", "run_id")
	testkit.Must(t, m.Freeze())

	const bound = 200 * time.Millisecond
	began := time.Now()
	_, err := redistest.Do(m.Addr(), bound, "PING")
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("frozen: %v, want a timeout", err)
	}
	if took := time.Since(began); took < bound*9/10 || took > redistest.DoBound {
		t.Errorf("it gave up after %v, want %v and less than what Master.Do waits", took, bound)
	}

	testkit.Must(t, m.Thaw())
	if now := testkit.Info(t, m, "server", "run_id"); now != runID {
		t.Error("thawed as another server")
	}
}

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

func TestProcessThatEndedByItselfCanBeStarted(t *testing.T) {
	m := testkit.Real(t, 1).Masters[0]
	runID := testkit.Info(t, m, "server", "run_id")
	if _, err := m.Do("SHUTDOWN", "NOSAVE"); err == nil {
		t.Fatal("SHUTDOWN got a reply")
	}
	testkit.Eventually(t, "a start after SHUTDOWN", func() bool { return m.Start() == nil })
	if now := testkit.Info(t, m, "server", "run_id"); now == runID {
		t.Error("the run id survived")
	}
}
