// Package child is for tests that start processes. It waits for what a child does, with a bound, and tells what the child had
// printed. It writes programs that can be run at once.
package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// most bounds how much of a child's output is kept.
const most = 8 << 10

// Output keeps the end of a child's output. The zero value is ready, and safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text []byte
	lost bool
}

// Write keeps text. It never fails.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, text...)
	if n := len(o.text) - most; n > 0 {
		o.text, o.lost = append(o.text[:0], o.text[n:]...), true
	}
	return len(text), nil
}

// Tee returns a reader that keeps what is read through it.
func (o *Output) Tee(from io.Reader) io.Reader { return io.TeeReader(from, o) }

// String quotes what was kept, for an error.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.text) == 0:
		return "the child had printed nothing"
	case o.lost:
		return fmt.Sprintf("the child had printed, at last: …%s", o.text)
	default:
		return fmt.Sprintf("the child had printed: %s", o.text)
	}
}

var errLate = errors.New("not in time")

// Await calls wait, which reads from a started child or waits for its end. After bound it kills the child, so
// wait returns; if children of the child may keep its output open, cmd needs a WaitDelay. If wait fails, or was
// too late, the error begins with what, the name of the event, and ends with what the child had printed.
func Await(cmd *exec.Cmd, said *Output, bound time.Duration, what string, wait func() error) error {
	late := make(chan struct{})
	timer := time.AfterFunc(bound, func() {
		close(late)
		_ = cmd.Process.Kill() // it may have ended
	})
	err := wait()
	if !timer.Stop() {
		<-late
		err = errors.Join(fmt.Errorf("%w: within %v", errLate, bound), err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; %v", what, err, said)
	}
	return nil
}

// WriteProgram writes a program that the test is about to run. A process that another goroutine forked
// meanwhile would have the file open for writing, and until its exec nobody could run the program (ETXTBSY).
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700)
}
