//go:build unix

// Package sqlserver starts database servers of this machine for tests, each with a directory of its own.
package sqlserver

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
)

const (
	// startup bounds how long a server may take to answer.
	startup = 30 * time.Second
	// patience bounds how long a program that makes the directory, or that ends, may take.
	patience = time.Minute
)

// kind is how to run a server of one kind. Its directory has all that it writes, and its socket.
type kind struct {
	name        string
	account     string         // root starts the server as this user
	driver      string         // of database/sql, which the test imports
	end         syscall.Signal // ends it at once: its data are of no use to anybody
	initialises func(bin, dir string) *exec.Cmd
	serves      func(bin, dir string) *exec.Cmd
	dsn         func(dir string) string
}

// Server is a running server, or why it doesn't run.
type Server struct {
	Dir string // of its data and its socket

	kind
	cmd     *exec.Cmd
	exited  chan struct{}
	printed child.Output
	missing error
}

// start starts a server from the programs that find finds.
func start(k kind, find func() (bin string, err error)) *Server {
	s := &Server{kind: k, exited: make(chan struct{})}
	bin, err := find()
	if s.missing = err; err == nil {
		s.missing = s.run(bin)
	}
	return s
}

func (s *Server) run(bin string) (err error) {
	if s.Dir, err = os.MkdirTemp("", "quorumlock-"+s.driver+"-"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.Dir))
		}
	}()
	attributes := childAttributes()
	if os.Geteuid() == 0 { // neither server runs as root
		if attributes.Credential, err = unprivileged(s.account); err != nil {
			return err
		}
		if err := os.Chown(s.Dir, int(attributes.Credential.Uid), int(attributes.Credential.Gid)); err != nil {
			return err
		}
	}
	initialise := s.initialises(bin, s.Dir)
	s.cmd = s.serves(bin, s.Dir)
	for _, cmd := range []*exec.Cmd{initialise, s.cmd} {
		cmd.Dir, cmd.SysProcAttr = s.Dir, attributes
		cmd.Stdout, cmd.Stderr = &s.printed, &s.printed
		cmd.WaitDelay = patience // its own children have its output, too
	}
	if err := initialise.Start(); err != nil {
		return err
	}
	if err := child.Await(initialise, &s.printed, patience, initialise.Path, initialise.Wait); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.cmd.Wait() // Stop judges how it ended
		close(s.exited)
	}()
	if err := s.await(); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

func unprivileged(name string) (*syscall.Credential, error) {
	account, err := user.Lookup(name)
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

// await waits until the server answers, or has ended.
func (s *Server) await() error {
	db, err := sql.Open(s.driver, s.dsn(s.Dir))
	if err != nil {
		return err
	}
	defer db.Close()
	answered := poll.Until(startup, func() bool {
		select {
		case <-s.exited:
			return true
		default:
			err = db.Ping()
			return err == nil
		}
	})
	select {
	case <-s.exited:
		return fmt.Errorf("%s has ended; %v", s.name, &s.printed)
	default:
	}
	if !answered {
		return fmt.Errorf("no answer from %s: %w; %v", s.name, err, &s.printed)
	}
	return nil
}

func (s *Server) kill() error {
	_ = s.cmd.Process.Signal(s.end) // it may have ended
	return child.Await(s.cmd, &s.printed, patience, s.name+" ends", func() error {
		<-s.exited
		return nil
	})
}

// Stop ends the server, if there is one.
func (s *Server) Stop() error {
	if s.missing != nil {
		return nil
	}
	return errors.Join(s.kill(), os.RemoveAll(s.Dir))
}

// Missing returns why the server doesn't run, or nil.
func (s *Server) Missing() error { return s.missing }

// Need skips the test if there is no server.
func (s *Server) Need(t testing.TB) {
	t.Helper()
	if s.missing != nil {
		t.Skipf("SKIPPED, needs %s: %v", s.name, s.missing)
	}
}
