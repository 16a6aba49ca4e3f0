//go:build unix

package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/quorumlock/quorumlock/fence"
	"modernc.org/sqlite"
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
	"PostgreSQL, pgx":             onPostgres("pgx", "read committed"),
	"PostgreSQL, repeatable read": onPostgres("postgres", "repeatable read"),
	"PostgreSQL, serializable":    onPostgres("pgx", "serializable"),
	"SQLite, write-ahead log":     onSQLite("wal"),
	"SQLite, rollback journal":    onSQLite("delete"),

	"PostgreSQL, a column":                  onColumn(onPostgres("pgx", "read committed")),
	"PostgreSQL, a column, repeatable read": onColumn(onPostgres("postgres", "repeatable read")),
	"SQLite, a column":                      onColumn(onSQLite("wal")),
}

var schemas atomic.Int64

func onPostgres(driver, isolation string) func(*testing.T) *database {
	return func(t *testing.T) *database {
		t.Helper()
		if server == nil {
			t.Skipf("SKIPPED, needs PostgreSQL: %v", noPostgres)
		}
		schema := fmt.Sprintf("test%d", schemas.Add(1))
		admin, err := sql.Open("postgres", server.dsn(""))
		must(t, err)
		defer admin.Close()
		_, err = admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema)
		must(t, err)
		settings := fmt.Sprintf("search_path=%s default_transaction_isolation='%s'", schema, isolation)
		return prepare(t, &database{driver: driver, dsn: server.dsn(settings)}, "bigserial")
	}
}

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
	for _, statement := range []string{
		fence.Schema, fence.Schema, // a second time does no harm
		"CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, token bigint)",
		"CREATE TABLE writes (seq " + serial + " PRIMARY KEY, account bigint, token bigint, old bigint, new bigint)",
	} {
		_, err := d.db.ExecContext(t.Context(), statement)
		must(t, err)
	}
	return d
}

// account makes an account, unless it is there.
func (d *database) account(t *testing.T, account int) {
	t.Helper()
	_, err := d.db.ExecContext(t.Context(),
		"INSERT INTO accounts (id, balance) VALUES ($1, $2) ON CONFLICT DO NOTHING", account, opening)
	must(t, err)
}

func (d *database) connect() target {
	kind := d.driver
	if d.column {
		kind += " column"
	}
	return target{kind, d.dsn}
}

func (d *database) session(t *testing.T, step func(string)) session {
	t.Helper()
	s, err := openSQL(d.connect(), step)
	must(t, err)
	return s
}

func (d *database) state(t *testing.T, account int) (balance int, log []write) {
	t.Helper()
	must(t, d.db.QueryRowContext(t.Context(), "SELECT balance FROM accounts WHERE id = $1", account).Scan(&balance))
	rows, err := d.db.QueryContext(t.Context(),
		"SELECT token, old, new FROM writes WHERE account = $1 ORDER BY seq", account)
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

type sqlSession struct {
	db     *sql.DB
	column bool
	step   func(string)
}

func openSQL(to target, step func(string)) (*sqlSession, error) {
	driver, column := strings.CutSuffix(to.Kind, " column")
	db, err := sql.Open(driver, to.Address)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &sqlSession{db, column, step}, nil
}

func (s *sqlSession) close() { s.db.Close() }

// transaction is one transaction of a session: its statements fail after the first one that does.
type transaction struct {
	*sqlSession
	ctx     context.Context
	tx      *sql.Tx
	account int
	token   uint64
}

func (x *transaction) stamp() error {
	x.step("stamp")
	if x.column {
		return fence.Column{Table: "accounts", Key: "id", Token: "token"}.Stamp(x.ctx, x.tx, x.account, x.token)
	}
	return fence.Stamp(x.ctx, x.tx, fmt.Sprint("account:", x.account), x.token)
}

func (x *transaction) read(balance *int) error {
	x.step("read")
	return x.tx.QueryRowContext(x.ctx, "SELECT balance FROM accounts WHERE id = $1", x.account).Scan(balance)
}

func (x *transaction) write(w write) error {
	x.step("write")
	_, err := x.tx.ExecContext(x.ctx, "UPDATE accounts SET balance = $1 WHERE id = $2", w.After, x.account)
	if err != nil {
		return err
	}
	_, err = x.tx.ExecContext(x.ctx, "INSERT INTO writes (account, token, old, new) VALUES ($1, $2, $3, $4)",
		x.account, w.Token, w.Before, w.After)
	return err
}

func (s *sqlSession) work(ctx context.Context, account int, token uint64, by order, amounts ...int) ([]write, error) {
	var balance int
	var done []write
	x := &transaction{s, ctx, nil, account, token}
	if by != oneStep && by != readFirstOne {
		if err := s.transact(x, by == rolledBack, func() error {
			if by == stampFirst || by == rolledBack || by == stampOnlyRead {
				if err := x.stamp(); err != nil {
					return err
				}
			}
			return x.read(&balance)
		}); err != nil {
			return nil, err
		}
	}
	for _, amount := range amounts {
		var w write
		err := s.transact(x, false, func() error {
			var steps []func() error
			switch by {
			case oneStep:
				steps = []func() error{x.stamp, func() error { return x.read(&balance) }}
			case readFirstOne:
				steps = []func() error{func() error { return x.read(&balance) }, x.stamp}
			case unguarded, stampOnlyRead:
			default:
				steps = []func() error{x.stamp}
			}
			for _, do := range steps {
				if err := do(); err != nil {
					return err
				}
			}
			w = write{token, balance, balance + amount}
			return x.write(w)
		})
		if err != nil {
			return done, err
		}
		done = append(done, w)
		balance = w.After
	}
	return done, nil
}

// transact runs a transaction until it is not refused for the sake of others.
func (s *sqlSession) transact(x *transaction, undo bool, statements func() error) error {
	for {
		s.step("begin")
		tx, err := s.db.BeginTx(x.ctx, nil)
		if again(err) { // a new connection to SQLite waits for a commit
			continue
		}
		if err != nil {
			return err
		}
		x.tx = tx
		err = statements()
		switch {
		case err == nil && !undo:
			s.step("commit")
			if err = tx.Commit(); err != nil {
				_ = tx.Rollback() // SQLite keeps the transaction when a commit has to wait
			}
		default:
			s.step("rollback")
			_ = tx.Rollback()
		}
		if !again(err) {
			return err
		}
	}
}

// again reports whether a transaction failed only because of others that ran beside it.
func again(err error) bool {
	var postgres interface{ SQLState() string }
	if errors.As(err, &postgres) {
		return postgres.SQLState() == "40001" || postgres.SQLState() == "40P01"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == 5 // SQLITE_BUSY
}
