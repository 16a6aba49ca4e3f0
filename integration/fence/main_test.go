//go:build unix

// Package fence_test shows that the guards of package fence refuse late writes, on a real
// PostgreSQL, on SQLite and on a real redis-server. Each guard has a control that leaves it out, or
// uses the wrong order, and loses a write.
//
// The files in the order in which each uses only those before it: main_test.go, postgres_test.go,
// resource_test.go (what the guards protect, and the judge of its writes), sql_test.go and
// redis_test.go (the two kinds of resource), then the tests: contract_test.go, interleave_test.go,
// paused_test.go.
package fence_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// soon bounds what should happen at once, even on a busy machine.
const soon = 10 * time.Second

// patience is how long a test waits for a child's word.
const patience = time.Minute

// childRole, in the environment, makes a copy of the test binary a holder instead of a test.
const childRole = "QUORUMLOCK_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childRole) != "" {
		os.Exit(holderProcess())
	}
	// The server's death signal fires when the thread that started it ends.
	runtime.LockOSThread()
	server, noPostgres = startPostgres()
	code := m.Run()
	if server != nil {
		if err := server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping PostgreSQL:", err)
			code = 1
		}
	}
	if leak := goleak.Find(); leak != nil && code == 0 {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
