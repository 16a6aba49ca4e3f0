package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// kinds start fleets of each kind.
var kinds = map[string]func(*testing.T, int) *redistest.Fleet{
	"real":     func(t *testing.T, n int) *redistest.Fleet { return testkit.Real(t, n) },
	"embedded": func(t *testing.T, n int) *redistest.Fleet { return standin.ForTest(t, n) },
}

func TestStartWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.BinaryVariable, "")
	testkit.Is(t, testkit.ErrorOf(redistest.StartReal(1)), redistest.ErrNoServer, "StartReal")
}

func TestStartThatFailsTellsWhyAndLeavesNothing(t *testing.T) {
	testkit.Real(t, 1) // skips without redis-server
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	_, err := redistest.StartReal(2, "--no-such-directive", "1")
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "no-such-directive"),
		"error %v: want what the server wrote", err)
	left, err := os.ReadDir(temp)
	testkit.Check(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
	_, err = standin.Start(0)
	testkit.Check(t, err != nil, "started a fleet of none")
}

func TestFleetStop(t *testing.T) {
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			fleet := start(t, 3)
			testkit.Must(t, fleet.Masters[0].Kill())
			err := fleet.Masters[1].Freeze()
			testkit.Require(t, err == nil || errors.Is(err, redistest.ErrEmbedded), "%v", err)
			testkit.Must(t, fleet.Stop())
			testkit.Must(t, fleet.Stop())
			for _, m := range fleet.Masters {
				_, err := m.Do("PING")
				testkit.Check(t, err != nil, "%s answers after Stop", m.Addr())
				testkit.Check(t, m.Start() != nil, "%s starts after Stop", m.Addr())
			}
			left, err := os.ReadDir(temp)
			testkit.Check(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
		})
	}
}

func TestAKilledMasterComesBackEmptyAtItsAddress(t *testing.T) {
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			fleet := start(t, 2)
			m, other := fleet.Masters[0], fleet.Masters[1]
			addr := m.Addr()
			runID := func() string { return testkit.Info(t, m, "server", "run_id") }
			before := runID()
			testkit.Do(t, m, "SET", "k", "v")
			testkit.Do(t, other, "SET", "k", "v")
			conn := testkit.Got(redis.Dial("tcp", addr))(t)
			defer conn.Close()

			testkit.Must(t, m.Kill())
			_, err := conn.Do("PING")
			testkit.Check(t, err != nil, "a connection survived the kill")
			_, err = m.Do("PING")
			testkit.Require(t, err != nil, "a killed master answers")
			testkit.Check(t, m.Kill() != nil, "killed twice")
			testkit.Must(t, m.Start())
			testkit.Check(t, m.Start() != nil, "started while it runs")
			testkit.Check(t, m.Addr() == addr, "address %s, before %s", m.Addr(), addr)
			testkit.Check(t, testkit.Do(t, m, "GET", "k") == nil, "it has its key")
			got, err := redis.String(other.Do("GET", "k"))
			testkit.Check(t, err == nil && got == "v", "the other master's key: %q, %v", got, err)
			testkit.Check(t, isRunID(runID()) && runID() != before, "the run id is %q, and was %q", runID(), before)
		})
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		startAndWait()
		return
	}
	goleak.VerifyTestMain(m)
}

// orphanVariable makes the test binary the parent in TestServersDieWithAKilledParent.
const orphanVariable = "QUORUMLOCK_MASTERS_PARENT"

// startAndWait is the parent: it starts a server, prints its URL and waits.
func startAndWait() {
	fleet, err := redistest.StartReal(1)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(fleet.URLs()[0])
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	if err := fleet.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func isRunID(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}
