//go:build unix

package fence_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
)

// server is the PostgreSQL of all tests, or nil if there is none: noPostgres tells why.
var (
	server     *postgres
	noPostgres error
)

// postgres is a PostgreSQL server in a directory of its own. It listens on a socket there only.
type postgres struct {
	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
	output bytes.Buffer
}

// startPostgres starts a server. It refuses to run as root, so root starts it as another user.
func startPostgres() (_ *postgres, err error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quorumlock-postgres-")
	if err != nil {
		return nil, err
	}
	p := &postgres{dir: dir, exited: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	attributes := childAttributes()
	if os.Geteuid() == 0 {
		if attributes.Credential, err = unprivileged(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(attributes.Credential.Uid), int(attributes.Credential.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"),
		"-D", data, "-U", "fence", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, attributes
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	p.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=100")
	p.cmd.Dir, p.cmd.SysProcAttr = dir, attributes
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // stop judges how it ended
		close(p.exited)
	}()
	if err := p.await(); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
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

func unprivileged() (*syscall.Credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// dsn is understood by both drivers. Settings are parameters of the session: "key=value".
func (p *postgres) dsn(settings string) string {
	return fmt.Sprintf("host=%s user=fence dbname=postgres sslmode=disable %s", p.dir, settings)
}

func (p *postgres) await() error {
	db, err := sql.Open("postgres", p.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	if !poll.Until(30*time.Second, func() bool {
		select {
		case <-p.exited:
			return true
		default:
			err = db.Ping()
			return err == nil
		}
	}) {
		return fmt.Errorf("no answer from PostgreSQL: %w", err)
	}
	select {
	case <-p.exited:
		return fmt.Errorf("PostgreSQL has ended: %s", p.output.String())
	default:
		return nil
	}
}

func (p *postgres) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its data are of no use to anybody
	<-p.exited
	return os.RemoveAll(p.dir)
}
