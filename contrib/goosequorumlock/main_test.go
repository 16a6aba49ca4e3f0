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
	"strings"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/lib/pq"
	"github.com/pressly/goose/v3"
	"github.com/quorumlock/quorumlock/contrib/goosequorumlock"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"go.uber.org/goleak"
)

// patience bounds what a busy machine may delay.
const patience = time.Minute

// name is that of the lock.
const name = "migrations of shop"

// childURLs and childDSN, in the environment, make a copy of the test binary a process that migrates.
const (
	childURLs = "QUORUMLOCK_TEST_URLS"
	childDSN  = "QUORUMLOCK_TEST_DSN"
)

var postgres *sqlserver.Server

func TestMain(m *testing.M) {
	if urls := os.Getenv(childURLs); urls != "" {
		if err := migrateOnce(strings.Split(urls, ","), os.Getenv(childDSN)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
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

// migrateOnce is a process that starts, and migrates first.
func migrateOnce(urls []string, dsn string) error {
	locker, err := redlock.Open(urls, quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(10*time.Second)))
	if err != nil {
		return err
	}
	defer locker.Close()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ran, err := migrateUp(ctx, db, locker, migrations())
	fmt.Println("migrated:", ran)
	return err
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
