//go:build unix

// Package fence_test shows that the guards of package fence refuse late writes, on a real
// PostgreSQL and MariaDB, on SQLite and on a real redis-server. Each guard has a control that leaves it out, or
// uses the wrong order, and loses a write.
package fence_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

// soon bounds what should happen at once, even on a busy machine.
const soon = 10 * time.Second

func TestMain(m *testing.M) {
	// A server's death signal fires when the thread that started it ends.
	runtime.LockOSThread()
	postgres, mariadb = sqlserver.StartPostgres("postgres"), sqlserver.StartMariaDB("mysql")
	code := m.Run()
	if err := errors.Join(postgres.Stop(), mariadb.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the servers:", err)
		code = 1
	}
	if leak := goleak.Find(); leak != nil && code == 0 {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

var must = testkit.Must
