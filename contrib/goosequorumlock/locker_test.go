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
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	_ "github.com/lib/pq"
	"github.com/pressly/goose/v3"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/contrib/goosequorumlock"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

var schemas atomic.Int64

// database returns an empty schema of the server.
func database(t *testing.T) (db *sql.DB, dsn string) {
	t.Helper()
	postgres.Need(t)
	schema := fmt.Sprintf("test%d", schemas.Add(1))
	dsn = sqlserver.PostgresDSN(postgres.Dir, "search_path="+schema)
	db, err := sql.Open("postgres", dsn)
	testkit.Must(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.ExecContext(t.Context(), "CREATE SCHEMA "+schema)
	testkit.Must(t, err)
	return db, dsn
}

func versions(t *testing.T, db *sql.DB) (count int) {
	t.Helper()
	testkit.Must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM goose_db_version WHERE version_id > 0").Scan(&count))
	return count
}

// Three processes, each with a locker and connections of its own, start at once. One of them migrates, and the others
// wait for it.
func TestThreeProcessesMigrateOnce(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	db, dsn := database(t)
	ran := make([]int, 3)
	var starting sync.WaitGroup
	for i := range ran {
		locker := masters.Locker()
		starting.Go(func() {
			own, err := sql.Open("postgres", dsn)
			if err == nil {
				defer own.Close()
				ran[i], err = migrateUp(t.Context(), own, locker, migrations())
			}
			testkit.Is(t, err, nil, "a process")
		})
	}
	starting.Wait()
	slices.Sort(ran)
	testkit.Check(t, slices.Equal(ran, []int{0, 0, 10}), "not one of three migrated: %d", ran)
	testkit.Equal(t, versions(t, db), 10, "migrations noted")
}

// Without the lock the same collides: three begin together, and the migrations cannot run twice.
func TestWithoutTheLock(t *testing.T) {
	db, _ := database(t)
	var begun sync.WaitGroup
	begun.Add(3)
	failed := make(chan error, 3)
	for range 3 {
		arrive := sync.OnceFunc(begun.Done)
		together := goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
			arrive()
			begun.Wait()
			return nil
		}}, nil)
		go func() {
			provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations(), goose.WithGoMigrations(together))
			if err == nil {
				_, err = provider.Up(t.Context())
			}
			arrive() // or the others wait for who has failed sooner
			failed <- err
		}()
	}
	err := errors.Join(<-failed, <-failed, <-failed)
	testkit.Check(t, err != nil, "three processes migrated at once, and nothing failed")
}

// The lock is lost during the first of many migrations: that one ends, and the rest do not run.
func TestALostLockStopsTheMigrations(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	db, _ := database(t)
	acquired := make(chan *quorum.Lock, 1)
	locker := masters.Locker(quorum.WithHooks(quorum.Hooks{Acquired: func(l *quorum.Lock) { acquired <- l }}))
	by, err := goosequorumlock.New(locker, name)
	testkit.Must(t, err)
	const many = 500
	files := fstest.MapFS{}
	for i := range many {
		files[fmt.Sprintf("%05d_step.sql", i+2)] = &fstest.MapFile{Data: []byte("-- +goose Up\nSELECT pg_sleep(0.01);\n")}
	}
	running, lost := make(chan struct{}), make(chan struct{})
	first := goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
		close(running)
		<-lost
		return nil
	}}, nil)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(by), goose.WithGoMigrations(first))
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := provider.Up(t.Context())
		ended <- err
	}()
	select {
	case <-running:
	case err := <-ended:
		t.Fatal(err)
	}
	masters.Lose(<-acquired)
	close(lost)
	testkit.Is(t, <-ended, quorum.ErrLost, "migrating under a lost lock")
	n := versions(t, db)
	testkit.Check(t, n != 0 && n <= many/2, "%d of %d migrations are noted, want the first, or few more", n, many+1)
	_, err = migrateUp(t.Context(), db, masters.Locker(), fstest.MapFS{"00001_step.sql": files["00002_step.sql"]})
	testkit.Check(t, err == nil, "afterwards: %v", err)
}

// Who waits ends with its context, and leaves no lock behind.
func TestWaitingEndsWithTheContext(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	db, _ := database(t)
	elsewhere := masters.HoldElsewhere(name)
	ctx, cancel := context.WithCancelCause(t.Context())
	hurry := errors.New("in a hurry")
	locker := masters.Locker(quorum.WithHooks(quorum.Hooks{Attempt: func(context.Context, quorum.AttemptEvent) { cancel(hurry) }}))
	_, err := migrateUp(ctx, db, locker, migrations())
	testkit.Check(t, errors.Is(err, quorum.ErrHeld) && errors.Is(err, hurry), "while another process migrates: %v", err)
	testkit.Must(t, elsewhere.Unlock(t.Context()))
	ran, err := migrateUp(t.Context(), db, masters.Locker(), migrations())
	testkit.Check(t, ran == 10 && err == nil, "afterwards: %d, %v", ran, err)
}

func TestArguments(t *testing.T) {
	masters := quorumtest.Start(t, 1)
	locker := masters.Locker()
	_, err := goosequorumlock.New(nil, name)
	testkit.Is(t, err, quorum.ErrInvalid, "no locker")
	_, err = goosequorumlock.New(locker, "")
	testkit.Is(t, err, quorum.ErrInvalid, "no name")
	by, err := goosequorumlock.New(locker, name)
	testkit.Must(t, err)
	testkit.Is(t, by.SessionUnlock(t.Context(), nil), quorum.ErrNotHeld, "unlocked without a lock")
	testkit.Must(t, locker.Close())
	_, err = goosequorumlock.New(locker, name)
	testkit.Is(t, err, quorum.ErrClosed, "a closed locker")
}

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
