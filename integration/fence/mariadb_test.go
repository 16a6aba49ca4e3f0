//go:build unix

package fence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
