//go:build unix

package sqlserver

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"syscall"
)

// StartMariaDB starts MariaDB. It answers to that driver, by [MariaDBDSN]. The server ends with the thread
// that calls.
func StartMariaDB(driver string) *Server {
	return start(kind{
		name: "MariaDB", account: "mysql", driver: driver, end: syscall.SIGKILL,
		initialises: func(_, dir string) *exec.Cmd {
			return exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+filepath.Join(dir, "data"),
				"--auth-root-authentication-method=normal", "--skip-name-resolve", "--skip-test-db")
		},
		serves: func(bin, dir string) *exec.Cmd {
			return exec.Command(bin, "--no-defaults", "--datadir="+filepath.Join(dir, "data"),
				"--socket="+mariadbSocket(dir), "--pid-file="+filepath.Join(dir, "pid"), "--skip-networking",
				"--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0")
		},
		dsn: func(dir string) string { return MariaDBDSN(dir, "", nil) },
	}, mariadbd)
}

// mariadbd returns the path of the server. Debian keeps it out of a user's path.
func mariadbd() (string, error) {
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no MariaDB server: install the package mariadb-server")
}

func mariadbSocket(dir string) string { return filepath.Join(dir, "socket") }

// MariaDBDSN names the server in that directory, with settings of the session.
func MariaDBDSN(dir, database string, settings url.Values) string {
	return fmt.Sprintf("root@unix(%s)/%s?%s", mariadbSocket(dir), database, settings.Encode())
}
