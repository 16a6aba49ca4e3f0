package masters

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

//go:embed testdata/step.c
var stepSource []byte

// errNoSteps: no server's clock can be stepped here.
var errNoSteps = fmt.Errorf("%w whose clock can be stepped", backstage.ErrNone)

// Steppable is a process whose wall clock can be stepped. All containers share this machine's clock.
type Steppable struct {
	*process
	file string
}

// Clocks returns a source of [Steppable]s. It builds the library between a server and its clock.
func Clocks() (s Source, err error) {
	if runtime.GOOS != "linux" {
		return s, fmt.Errorf("%w: it needs LD_PRELOAD", errNoSteps)
	}
	dir, err := os.MkdirTemp("", "quorumlock-clocks-")
	if err != nil {
		return s, err
	}
	running := new(atomic.Int64)
	s = Source{Close: func() error { return errors.Join(none(running), os.RemoveAll(dir)) }}
	library, source := filepath.Join(dir, "step.so"), filepath.Join(dir, "step.c")
	if err := os.WriteFile(source, stepSource, 0o644); err != nil {
		return s, errors.Join(err, s.Close())
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		return s, errors.Join(fmt.Errorf("%w: %w: %s", errNoSteps, err, out), s.Close())
	}
	s.Kind = "processes with clocks of their own"
	s.Start = func(args ...string) (Master, error) { return startSteppable(running, dir, library, args) }
	return s, nil
}

func startSteppable(running *atomic.Int64, dir, library string, args []string) (Master, error) {
	file, err := os.CreateTemp(dir, "clock-")
	if err != nil {
		return nil, err
	}
	file.Close()
	s := &Steppable{file: file.Name()}
	if err := s.Step(0); err != nil {
		return nil, err
	}
	env := []string{"LD_PRELOAD=" + library, "QUORUMLOCK_CLOCK_STEP=" + s.file}
	if s.process, err = startProcess(running, env, args); err != nil {
		if errors.Is(err, redistest.ErrNoServer) {
			err = fmt.Errorf("%w: %w", errNoSteps, err)
		}
		return nil, err
	}
	// A server that is linked in another way would ignore the step.
	if err := errors.Join(s.Step(time.Hour), s.shows(time.Hour), s.Step(0)); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Step sets how far the server's clock is ahead of this machine's, in seconds.
func (s *Steppable) Step(ahead time.Duration) error {
	f, err := os.OpenFile(s.file, os.O_WRONLY, 0) // in place: the server has it mapped
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))), 0)
	return errors.Join(err, f.Close())
}

func (s *Steppable) shows(ahead time.Duration) error {
	told, err := redis.Strings(s.Do("TIME"))
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(told[0], 10, 64)
	if err != nil {
		return err
	}
	if off := time.Until(time.Unix(seconds, 0)) - ahead; off.Abs() > 10*time.Second {
		return fmt.Errorf("%w: a step of %v is seen as %v", errNoSteps, ahead, off+ahead)
	}
	return nil
}
