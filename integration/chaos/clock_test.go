//go:build unix

package chaos

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
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

//go:embed testdata/step.c
var stepSource []byte

// errNoSteps: no server's clock can be stepped here.
var errNoSteps = errors.New("no server's clock was stepped")

// steppable is a redis-server process whose wall clock can be stepped. All containers share this
// machine's clock.
type steppable struct {
	*lone
	file string
}

// stepLibrary builds, once, the library between a server and its clock.
var stepLibrary = sync.OnceValues(func() (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w: it needs LD_PRELOAD", errNoSteps)
	}
	path := filepath.Join(lab.scratch.dir, "step.so")
	if err := os.WriteFile(path+".c", stepSource, 0o644); err != nil {
		return "", err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", path, path+".c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w: %s", errNoSteps, err, out)
	}
	return path, nil
})

var steppables = &processes{}

// startSteppable starts a server whose clock can be stepped. The error wraps errNoSteps if that
// is impossible.
func startSteppable(args ...string) (server, error) {
	library, err := stepLibrary()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "clock-")
	if err != nil {
		return nil, err
	}
	file.Close()
	s := &steppable{file: file.Name()}
	if err := s.Step(0); err != nil {
		return nil, err
	}
	if s.lone, err = steppables.startWith([]string{"LD_PRELOAD=" + library, "QUORUMLOCK_CLOCK_STEP=" + s.file}, args...); err != nil {
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
func (s *steppable) Step(ahead time.Duration) error {
	f, err := os.OpenFile(s.file, os.O_WRONLY, 0) // in place: the server has it mapped
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))), 0)
	return errors.Join(err, f.Close())
}

func (s *steppable) shows(ahead time.Duration) error {
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

// step sets a master's clock.
func (c *cluster) step(i int, ahead time.Duration) error {
	c.happened(ofMaster(i), "clock stepped", "to %v, master %d", ahead, i+1)
	c.tracks.End(ofMaster(i), "another time")
	if ahead != 0 {
		c.begins(ofMaster(i), timeline.Hindered, "another time")
	}
	return c.servers[i].(*steppable).Step(ahead)
}

// steppedClocks: the clocks of a minority jump an hour ahead, which ends every lease there, then
// two hours back, which prolongs the keys that are set meanwhile, under a lock that all masters had
// granted. The other masters keep the lock.
func steppedClocks(r *run) {
	holder, _ := r.holds(contender.Plan{})
	r.crowd(2, contender.Plan{Patience: 200 * time.Millisecond})
	r.let(r.lease / 2)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		r.all(0, r.n/2, func(i int) error { return r.step(i, ahead) })
		r.let(r.lease + r.lease/2)
	}
	r.heldThroughout(holder)
}
