//go:build unix

package fence_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/internal/sqlserver"
)

// postgres is the PostgreSQL of all tests.
var postgres *sqlserver.Server

func onPostgres(driver, isolation string) func(*testing.T) *database {
	return func(t *testing.T) *database {
		t.Helper()
		postgres.Need(t)
		schema := fmt.Sprintf("test%d", schemas.Add(1))
		admin, err := sql.Open("postgres", sqlserver.PostgresDSN(postgres.Dir, ""))
		must(t, err)
		defer admin.Close()
		_, err = admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema)
		must(t, err)
		// lib/pq asks once to cancel a statement. If that comes before the statement, it would wait for ever.
		settings := fmt.Sprintf("search_path=%s default_transaction_isolation='%s' lock_timeout=20000", schema, isolation)
		return prepare(t, &database{driver: driver, dsn: sqlserver.PostgresDSN(postgres.Dir, settings)}, "bigserial")
	}
}
