//go:build unix

package goosequorumlock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	migratepostgres "github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/goose.md quotes up.

func up(ctx context.Context, locker *quorum.Locker, m *migrate.Migrate) error {
	return locker.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
		defer stop()
		if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return context.Cause(ctx)
	}, "migrations of shop")
}

// The lock is lost while golang-migrate runs many migrations: few of them run after that. Who comes next runs
// the rest.
func TestMigrationsStopWithTheLock(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	acquired := make(chan *quorum.Lock, 1)
	locker := masters.Locker(quorum.WithHooks(quorum.Hooks{Acquired: func(l *quorum.Lock) { acquired <- l }}))
	db, _ := database(t)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE gate (open boolean)")
	must(t, err)

	// The first migration waits for a lock of the table, until the lock is lost.
	gate, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer gate.Rollback()
	_, err = gate.ExecContext(t.Context(), "LOCK TABLE gate")
	must(t, err)
	const many = 300
	files := fstest.MapFS{"m/1_gate.up.sql": {Data: []byte("INSERT INTO gate VALUES (true);")}}
	for i := range many {
		files[fmt.Sprintf("m/%d_step.up.sql", i+2)] = &fstest.MapFile{Data: []byte("SELECT pg_sleep(0.01);")}
	}
	ended := make(chan error, 1)
	go func() { ended <- up(context.Background(), locker, migrator(t, db, files)) }()
	masters.Lose(<-acquired)
	must(t, gate.Rollback())
	if err := <-ended; !errors.Is(err, quorum.ErrLost) {
		t.Errorf("migrating under a lost lock: %v", err)
	}
	rest := migrator(t, db, files)
	if version, dirty, err := rest.Version(); version > many/2 || dirty || err != nil && !errors.Is(err, migrate.ErrNilVersion) {
		t.Errorf("the version is %d, dirty %v, %v: want the first one, or few more", version, dirty, err)
	}
	must(t, up(t.Context(), masters.Locker(), rest))
	if version, _, err := rest.Version(); version != many+1 || err != nil {
		t.Errorf("in the end the version is %d, want %d: %v", version, many+1, err)
	}
}

func migrator(t *testing.T, db *sql.DB, files fstest.MapFS) *migrate.Migrate {
	source, err := iofs.New(files, "m")
	if err != nil {
		t.Error(err)
		return nil
	}
	driver, err := migratepostgres.WithInstance(db, &migratepostgres.Config{})
	if err != nil {
		t.Error(err)
		return nil
	}
	m, err := migrate.NewWithInstance("iofs", source, "postgres", driver)
	if err != nil {
		t.Error(err)
	}
	return m
}
