//go:build unix

package chaos

import (
	"os"
	"path/filepath"
)

// scratch is a directory for everything that is written: programs, histories, masters' disks.
type scratch struct {
	dir     string
	outside string // where kept directories go
}

func openScratch() (*scratch, error) {
	s := &scratch{outside: os.TempDir()}
	var err error
	if s.dir, err = os.MkdirTemp("", "quorumlock-chaos-"); err != nil {
		return nil, err
	}
	return s, os.Setenv("TMPDIR", s.dir) // for every temporary file from here on
}

func (s *scratch) close() error { return os.RemoveAll(s.dir) }

// keep moves a directory out of the scratch directory, and returns its new path.
func (s *scratch) keep(dir string) (string, error) {
	to, err := os.MkdirTemp(s.outside, "quorumlock-histories-")
	if err != nil {
		return dir, err
	}
	to = filepath.Join(to, filepath.Base(dir))
	return to, os.Rename(dir, to)
}
