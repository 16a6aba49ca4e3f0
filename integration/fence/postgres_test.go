//go:build unix

package fence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// postgres is the PostgreSQL of all tests.
var postgres *server

func startPostgres() *server {
	k := kind{
		name: "PostgreSQL", account: "postgres", driver: "postgres", end: syscall.SIGQUIT,
		initialises: func(bin, dir string) *exec.Cmd {
			return exec.Command(filepath.Join(bin, "initdb"),
				"-D", filepath.Join(dir, "data"), "-U", "fence", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
		},
		serves: func(bin, dir string) *exec.Cmd {
			return exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir,
				"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=100")
		},
		dsn: func(dir string) string { return postgresDSN(dir, "") },
	}
	bin, err := postgresBin()
	if err != nil {
		return &server{kind: k, missing: err}
	}
	return start(k, bin)
}

// postgresBin returns the directory of the server's programs. Debian keeps them out of the path.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if _, err := exec.LookPath("initdb"); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("there is no PostgreSQL server: install the package postgresql")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// postgresDSN is understood by both drivers. Settings are parameters of the session: "key=value".
func postgresDSN(dir, settings string) string {
	return fmt.Sprintf("host=%s user=fence dbname=postgres sslmode=disable %s", dir, settings)
}

func onPostgres(driver, isolation string) func(*testing.T) *database {
	return func(t *testing.T) *database {
		t.Helper()
		postgres.need(t)
		schema := fmt.Sprintf("test%d", schemas.Add(1))
		admin, err := sql.Open("postgres", postgresDSN(postgres.dir, ""))
		must(t, err)
		defer admin.Close()
		_, err = admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema)
		must(t, err)
		settings := fmt.Sprintf("search_path=%s default_transaction_isolation='%s'", schema, isolation)
		return prepare(t, &database{driver: driver, dsn: postgresDSN(postgres.dir, settings)}, "bigserial")
	}
}
