//go:build unix

package fence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/internal/testkit"
	_ "modernc.org/sqlite"
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
	rows := testkit.Opened(d.db.QueryContext(t.Context(),
		fmt.Sprintf("SELECT token, old, new FROM writes WHERE account = %d ORDER BY seq", account)))(t)
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

// block returns the block of docs/fencing.md's code in a language that has the mark.
func block(t *testing.T, language, mark string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```" + language + "\n(.*?)```")
	for _, found := range blocks.FindAllStringSubmatch(testkit.Read(t, "../../docs/fencing.md"), -1) {
		if strings.Contains(found[1], mark) {
			return found[1]
		}
	}
	t.Fatalf("docs/fencing.md has no %s with %q", language, mark)
	return ""
}

// The job of docs/fencing.md, as quorumlock run starts it: one that is late is refused, and writes nothing; nor
// does one without a token. Without the stamp the late one writes.
func TestShellJobThatIsLate(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skipf("SKIPPED, needs psql: %v", err)
	}
	_, job, _ := strings.Cut(block(t, "sh", "$QUORUMLOCK_TOKEN"), " -- ")
	for _, c := range []struct {
		name, without, late, says string
		code, balance             int
	}{
		{"stamped", "", "41", "account:42 is fenced: token 41 is below 42", 3, opening + 10},
		// The failed statement has ended the transaction, which no COMMIT brings back.
		{"without ON_ERROR_STOP", "-v ON_ERROR_STOP=1", "41", "account:42 is fenced: token 41 is below 42", 0, opening + 10},
		{"without a token", "", "", "syntax error", 3, opening + 10},
		{"control: without the stamp", "-f stamp.sql", "41", "", 0, opening + 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, dir := onPostgres("postgres", "read committed")(t), t.TempDir()
			d.account(t, account)
			for name, content := range map[string]string{
				"stamp.sql": block(t, "sql", "\\gset"),
				"deposit.sql": fmt.Sprintf(`UPDATE accounts SET balance = balance + 10 WHERE id = %[1]d;
					INSERT INTO writes (account, token, old, new)
					SELECT id, :token, balance - 10, balance FROM accounts WHERE id = %[1]d;`, account),
			} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			var schema string
			must(t, d.db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema))
			run := func(token string) (code int, says string) {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(job, c.without, "", 1))
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "QUORUMLOCK_TOKEN="+token, "PGHOST="+postgres.Dir, "PGUSER=fence",
					"PGDATABASE=postgres", "PGOPTIONS=-c search_path="+schema)
				return testkit.Exit(t, cmd)
			}
			code, says := run("42")
			testkit.Require(t, code == 0, "the next job exits with %d: %s", code, says)
			code, says = run(c.late)
			balance, log := d.state(t, account)
			testkit.Check(t, balance == c.balance && code == c.code && strings.Contains(says, c.says),
				"balance %d, want %d; psql exits with %d, want %d: %s; %v", balance, c.balance, code, c.code, says, log)
		})
	}
}

var mariadb *sqlserver.Server

func onMariaDB(settings url.Values) func(*testing.T) *database {
	return func(t *testing.T) *database {
		t.Helper()
		mariadb.Need(t)
		name := fmt.Sprintf("test%d", schemas.Add(1))
		admin := testkit.Opened(sql.Open("mysql", sqlserver.MariaDBDSN(mariadb.Dir, "", nil)))(t)
		for setting := range settings {
			var found, value string
			err := admin.QueryRowContext(t.Context(), fmt.Sprintf("SHOW VARIABLES LIKE '%s'", setting)).Scan(&found, &value)
			if errors.Is(err, sql.ErrNoRows) {
				t.Skipf("SKIPPED, needs a MariaDB with %s", setting)
			}
			must(t, err)
		}
		testkit.Got(admin.ExecContext(t.Context(), "CREATE DATABASE "+name))(t)
		return prepare(t, &database{driver: "mysql", dsn: sqlserver.MariaDBDSN(mariadb.Dir, name, settings)}, "bigint AUTO_INCREMENT")
	}
}

var (
	readCommitted     = url.Values{"tx_isolation": {"'READ-COMMITTED'"}}
	repeatableRead    = url.Values{"tx_isolation": {"'REPEATABLE-READ'"}} // the default
	serializable      = url.Values{"tx_isolation": {"'SERIALIZABLE'"}}
	snapshotIsolation = url.Values{"tx_isolation": {"'REPEATABLE-READ'"}, "innodb_snapshot_isolation": {"1"}} // as MariaDB 11.6 has it
)

var ofThread = regexp.MustCompile(`thread id (\d+),`)

// waitingInMariaDB counts the transactions in this database that wait for a lock. The engine's status
// is always of now; information_schema.innodb_trx is not, as long as somebody polls it.
func waitingInMariaDB(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	var kind, name, status string
	must(t, db.QueryRowContext(t.Context(), "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status))
	for _, transaction := range strings.Split(status, "---TRANSACTION")[1:] {
		thread := ofThread.FindStringSubmatch(transaction)
		if thread == nil || !strings.Contains(transaction, "LOCK WAIT") {
			continue
		}
		var here int
		must(t, db.QueryRowContext(t.Context(),
			"SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id = ?", thread[1]).Scan(&here))
		n += here
	}
	return n
}

// A transaction that has read before its stamp has a snapshot from before the next holder's. The stamp
// looks past it.
func TestStampMySQLReadsNoSnapshot(t *testing.T) {
	t.Parallel()
	d := onMariaDB(repeatableRead)(t)
	d.account(t, account)
	stamp := d.stamper(t)
	must(t, stamp(40))
	err := in(t, d, func(tx *sql.Tx) error {
		var balance int
		must(t, tx.QueryRowContext(t.Context(), "SELECT balance FROM accounts").Scan(&balance))
		must(t, stamp(42))
		return fence.StampMySQL(t.Context(), tx, resourceOf(account), 41)
	})
	fenced, ok := errors.AsType[*fence.Error](err)
	testkit.Check(t, ok && fenced.Seen == 42, "token 41, after 42: %v", err)
}

// Resources that a collation would hold for equal are apart. One that the column cannot hold is
// refused, also by a server that would cut it short.
func TestResourcesOfMySQL(t *testing.T) {
	t.Parallel()
	d := onMariaDB(url.Values{"sql_mode": {"''"}})(t)
	stamp := func(resource string, token uint64) error {
		return in(t, d, func(tx *sql.Tx) error { return fence.StampMySQL(t.Context(), tx, resource, token) })
	}
	longest := strings.Repeat("x", 255)
	must(t, stamp("é", 41))
	for i, resource := range []string{"É", "e", "E", "e ", "e\u0301", "\u00e9 ", longest} {
		testkit.Is(t, stamp(resource, uint64(i)+1), nil, resource)
	}
	err := stamp(longest+"y", 1)
	testkit.Check(t, errors.Is(err, fence.ErrInvalid) && strings.Contains(err.Error(), "256 bytes"),
		"a resource of 256 bytes: %v, want ErrInvalid", err)
}
