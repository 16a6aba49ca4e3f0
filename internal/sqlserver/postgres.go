//go:build unix

package sqlserver

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
)

// StartPostgres starts PostgreSQL. It answers to that driver, by [PostgresDSN]. The server ends with the
// thread that calls.
func StartPostgres(driver string) *Server {
	return start(kind{
		name: "PostgreSQL", account: "postgres", driver: driver, end: syscall.SIGQUIT,
		initialises: func(bin, dir string) *exec.Cmd {
			return exec.Command(filepath.Join(bin, "initdb"),
				"-D", filepath.Join(dir, "data"), "-U", "fence", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
		},
		serves: func(bin, dir string) *exec.Cmd {
			return exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir,
				"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=600")
		},
		dsn: func(dir string) string { return PostgresDSN(dir, "") },
	}, postgresBin)
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

// PostgresDSN names the server in that directory, to lib/pq and to pgx. Settings are parameters of the session: "key=value".
func PostgresDSN(dir, settings string) string {
	return fmt.Sprintf("host=%s user=fence dbname=postgres sslmode=disable %s", dir, settings)
}
