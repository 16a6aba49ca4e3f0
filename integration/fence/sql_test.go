//go:build unix

package fence_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// database is a resource in tables.
type database struct {
	driver, dsn string
	column      bool // the guard is a column of the table, and not the table of fence.Schema
	db          *sql.DB
}

// guards are the databases, each made afresh for each test.
var guards = map[string]func(*testing.T) *database{
	"PostgreSQL, lib/pq":          onPostgres("postgres", "read committed"),
	"PostgreSQL, repeatable read": onPostgres("postgres", "repeatable read"),
	"PostgreSQL, serializable":    onPostgres("pgx", "serializable"),
	"SQLite, write-ahead log":     onSQLite("wal"),
	"SQLite, rollback journal":    onSQLite("delete"),
	"MariaDB, read committed":     onMariaDB(readCommitted),
	"MariaDB, repeatable read":    onMariaDB(repeatableRead),
	"MariaDB, snapshot isolation": onMariaDB(snapshotIsolation),
	"MariaDB, serializable":       onMariaDB(serializable),

	"PostgreSQL, a column": onColumn(onPostgres("pgx", "read committed")),
	"SQLite, a column":     onColumn(onSQLite("wal")),
}

var schemas atomic.Int64

// onSQLite is without a busy timeout: a transaction that would wait fails, and is run again.
func onSQLite(journal string) func(*testing.T) *database {
	return func(t *testing.T) *database {
		t.Helper()
		dsn := fmt.Sprintf("file:%s?_pragma=journal_mode(%s)&_pragma=synchronous(off)",
			filepath.Join(t.TempDir(), "db"), journal)
		return prepare(t, &database{driver: "sqlite", dsn: dsn}, "integer")
	}
}

func onColumn(fresh func(*testing.T) *database) func(*testing.T) *database {
	return func(t *testing.T) *database {
		t.Helper()
		d := fresh(t)
		d.column = true
		return d
	}
}

func prepare(t *testing.T, d *database, serial string) *database {
	t.Helper()
	var err error
	d.db, err = sql.Open(d.driver, d.dsn)
	must(t, err)
	t.Cleanup(func() { must(t, d.db.Close()) })
	schema := fence.Schema
	if d.driver == "mysql" {
		schema = fence.SchemaMySQL
	}
	for _, statement := range []string{
		schema, schema, // a second time does no harm
		"CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, token bigint)",
		"CREATE TABLE writes (seq " + serial + " PRIMARY KEY, account bigint, token bigint, old bigint, new bigint)",
	} {
		testkit.Got(d.db.ExecContext(t.Context(), statement))(t)
	}
	return d
}

func (d *database) account(t *testing.T, account int) {
	t.Helper()
	var n int
	must(t, d.db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT count(*) FROM accounts WHERE id = %d", account)).Scan(&n))
	if n == 0 {
		_, err := d.db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO accounts (id, balance) VALUES (%d, %d)", account, opening))
		must(t, err)
	}
}

func (d *database) session(t *testing.T, step func(string)) session { return d.open(t, step) }

func (d *database) open(t *testing.T, step func(string)) *sqlSession {
	t.Helper()
	db := testkit.Got(sql.Open(d.driver, d.dsn))(t)
	db.SetMaxOpenConns(1)
	return &sqlSession{d, db, step}
}

func (d *database) state(t *testing.T, account int) (balance int, log []write) {
	t.Helper()
	must(t, d.db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT balance FROM accounts WHERE id = %d", account)).Scan(&balance))
	rows, err := d.db.QueryContext(t.Context(),
		fmt.Sprintf("SELECT token, old, new FROM writes WHERE account = %d ORDER BY seq", account))
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var w write
		must(t, rows.Scan(&w.Token, &w.Before, &w.After))
		log = append(log, w)
	}
	must(t, rows.Err())
	return balance, log
}

var postgres *sqlserver.Server

func onPostgres(driver, isolation string) func(*testing.T) *database {
	return func(t *testing.T) *database {
		t.Helper()
		postgres.Need(t)
		schema := fmt.Sprintf("test%d", schemas.Add(1))
		admin := testkit.Opened(sql.Open("postgres", sqlserver.PostgresDSN(postgres.Dir, "")))(t)
		testkit.Got(admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema))(t)
		// lib/pq asks once to cancel a statement. If that comes before the statement, it would wait for ever.
		settings := fmt.Sprintf("search_path=%s default_transaction_isolation='%s' lock_timeout=20000", schema, isolation)
		return prepare(t, &database{driver: driver, dsn: sqlserver.PostgresDSN(postgres.Dir, settings)}, "bigserial")
	}
}
