//go:build unix

package goosequorumlock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"testing/fstest"

	_ "github.com/lib/pq"
	"github.com/pressly/goose/v3"
	"github.com/quorumlock/quorumlock/contrib/goosequorumlock"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/quorum"
	"go.uber.org/goleak"
)

// name is that of the lock.
const name = "migrations of shop"

var postgres *sqlserver.Server

func TestMain(m *testing.M) {
	runtime.LockOSThread() // the server ends with the thread that started it
	postgres = sqlserver.StartPostgres("postgres")
	code := m.Run()
	if err := errors.Join(postgres.Stop(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// migrations are slow, and none can run twice. They begin with version 2.
func migrations() fs.FS {
	files := fstest.MapFS{}
	for i := range 10 {
		files[fmt.Sprintf("%05d_step.sql", i+2)] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"-- +goose Up\nCREATE TABLE step%d (at timestamptz);\nSELECT pg_sleep(0.02);\n", i)}
	}
	return files
}

// docs/goose.md quotes migrateUp.

func migrateUp(ctx context.Context, db *sql.DB, locker *quorum.Locker, files fs.FS) (ran int, err error) {
	by, err := goosequorumlock.New(locker, name)
	if err != nil {
		return 0, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(by))
	if err != nil {
		return 0, err
	}
	results, err := provider.Up(ctx)
	return len(results), err
}
