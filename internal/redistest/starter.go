package redistest

import (
	"os/exec"
	"runtime"
	"sync"
)

// starter starts child processes from one OS thread that lives until stop. The death signal of a
// Linux child fires when the *thread* that forked it ends, and Go ends and makes threads at will.
// Started from just any goroutine, a server could be killed in the middle of a test.
type starter struct {
	jobs chan func()
	stop func() // ends the thread. On Linux, children that still run die with it.
}

func newStarter() *starter {
	s := &starter{jobs: make(chan func())}
	var running sync.WaitGroup
	running.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for job := range s.jobs {
			job()
		}
	})
	s.stop = sync.OnceFunc(func() { close(s.jobs); running.Wait() })
	return s
}

// start calls cmd.Start on the starter's thread. It must not be called after stop.
func (s *starter) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.jobs <- func() { result <- cmd.Start() }
	return <-result
}
