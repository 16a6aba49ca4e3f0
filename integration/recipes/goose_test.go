//go:build unix

package recipes_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/lib/pq"
	"github.com/pressly/goose/v3"

	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/recipes.md quotes migrateUp.

func migrateUp(ctx context.Context, locker *quorum.Locker, provider *goose.Provider) (ran []*goose.MigrationResult, err error) {
	err = locker.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		ran, err = provider.Up(ctx)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err) // errors.Is(err, quorum.ErrLost): goose was stopped
		}
		return err
	}, "shop/schema")
	return ran, err
}

// Three processes start at once, each with a locker and connections of its own. One migrates, and the others wait for it.
func TestThreeProcessesMigrateOnce(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	db, dsn := database(t)
	ran := make([]int, 3)
	var starting sync.WaitGroup
	for i := range ran {
		own := testkit.Opened(sql.Open("postgres", dsn))(t)
		locker, provider := masters.Locker(), newProvider(t, own, slow())
		starting.Go(func() {
			results, err := migrateUp(t.Context(), locker, provider)
			ran[i] = len(results)
			testkit.Is(t, err, nil, "a process")
		})
	}
	starting.Wait()
	slices.Sort(ran)
	testkit.Check(t, slices.Equal(ran, []int{0, 0, 10}), "not one of three migrated: %d", ran)
	testkit.Equal(t, versions(t, db), 10, "migrations noted")
}

// Without the lock the same collides: three begin together, and the migrations cannot run twice.
func TestThreeProcessesWithoutTheLock(t *testing.T) {
	db, _ := database(t)
	var begun sync.WaitGroup
	begun.Add(3)
	failed := make(chan error, 3)
	for range 3 {
		arrive := sync.OnceFunc(begun.Done)
		provider := newProvider(t, db, slow(), goose.WithGoMigrations(inTx(func(context.Context) {
			arrive()
			begun.Wait()
		})))
		go func() {
			_, err := provider.Up(t.Context())
			arrive() // or the others wait for who has failed sooner
			failed <- err
		}()
	}
	err := errors.Join(<-failed, <-failed, <-failed)
	testkit.Check(t, err != nil, "three processes migrated at once, and nothing failed")
}

// The lock ends during the first of many migrations, of which each ignores its context. No other one runs, whether the
// lock is another's, is about to be lost, or was left behind by Close.
func TestTheEndOfTheLockStopsTheMigrations(t *testing.T) {
	early := []quorum.Option{quorum.WithLease(6 * time.Second), quorum.WithStopBefore(2900 * time.Millisecond)}
	for title, test := range map[string]struct {
		opts   []quorum.Option
		end    func(masters *quorumtest.Masters, locker *quorum.Locker, lock *quorum.Lock)
		holds  bool // when the context ends
		reason error
	}{
		"lost":  {end: func(m *quorumtest.Masters, _ *quorum.Locker, lock *quorum.Lock) { m.Lose(lock) }, reason: quorum.ErrLost},
		"close": {end: func(_ *quorumtest.Masters, l *quorum.Locker, _ *quorum.Lock) { l.Close() }, reason: quorum.ErrClosed},
		"stop before the deadline": {opts: early, holds: true, reason: quorum.ErrLost,
			end: func(m *quorumtest.Masters, _ *quorum.Locker, _ *quorum.Lock) {
				m.Stop(0)
				m.Stop(1)
			}},
	} {
		t.Run(title, func(t *testing.T) {
			masters := quorumtest.Start(t, 3)
			db, _ := database(t)
			acquired := make(chan *quorum.Lock, 1)
			locker := masters.Locker(append(test.opts, quorum.WithHooks(quorum.Hooks{Acquired: func(l *quorum.Lock) { acquired <- l }}))...)
			running, goOn := make(chan bool), make(chan bool)
			var others atomic.Int64
			migrations := []*goose.Migration{inTx(func(context.Context) { close(running); <-goOn })}
			for i := range int64(5) {
				other := goose.NewGoMigration(i+2, &goose.GoFunc{RunDB: func(context.Context, *sql.DB) error {
					others.Add(1)
					return nil
				}}, nil)
				migrations = append(migrations, other)
			}
			provider := newProvider(t, db, nil, goose.WithGoMigrations(migrations...))
			ended := make(chan error, 1)
			go func() {
				_, err := migrateUp(t.Context(), locker, provider)
				ended <- err
			}()
			select {
			case <-running:
			case err := <-ended:
				t.Fatal(err)
			}
			lock := <-acquired
			test.end(masters, locker, lock)
			<-lock.Context().Done()
			testkit.Equal(t, lock.Valid(), test.holds, "held when its context has ended")
			close(goOn)
			testkit.Is(t, <-ended, test.reason, "migrating after the end of the lock")
			testkit.Equal(t, others.Load(), 0, "migrations that began afterwards")
			testkit.Equal(t, versions(t, db), 0, "migrations noted")
		})
	}
}

var schemas atomic.Int64

// database returns an empty schema of the server.
func database(t *testing.T) (db *sql.DB, dsn string) {
	t.Helper()
	postgres.Need(t)
	schema := fmt.Sprintf("test%d", schemas.Add(1))
	dsn = sqlserver.PostgresDSN(postgres.Dir, "search_path="+schema)
	db = testkit.Opened(sql.Open("postgres", dsn))(t)
	testkit.Got(db.ExecContext(t.Context(), "CREATE SCHEMA "+schema))(t)
	return db, dsn
}

func versions(t *testing.T, db *sql.DB) (count int) {
	t.Helper()
	testkit.Must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM goose_db_version WHERE version_id > 0").Scan(&count))
	return count
}

func newProvider(t *testing.T, db *sql.DB, files fs.FS, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	return testkit.Got(goose.NewProvider(goose.DialectPostgres, db, files, opts...))(t)
}

// inTx is the first migration: work in a transaction.
func inTx(work func(ctx context.Context)) *goose.Migration {
	return goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, _ *sql.Tx) error {
		work(ctx)
		return nil
	}}, nil)
}

// slow migrations cannot run twice. They begin with version 2.
func slow() fs.FS {
	files := fstest.MapFS{}
	for i := range 10 {
		files[fmt.Sprintf("%05d_step.sql", i+2)] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"-- +goose Up\nCREATE TABLE step%d (at timestamptz);\nSELECT pg_sleep(0.02);\n", i)}
	}
	return files
}
