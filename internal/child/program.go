package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Printed collects what a process, or a part of this one, prints. Sees, if set, is called with each piece first.
type Printed struct {
	Sees func(text string) error

	mu   sync.Mutex
	text strings.Builder
}

func (o *Printed) Write(p []byte) (int, error) {
	if o.Sees != nil {
		if err := o.Sees(string(p)); err != nil {
			return 0, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Printed) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Program is a child that keeps all that it prints.
type Program struct {
	*exec.Cmd
	Out, Errs Printed
	Exited    chan struct{} // closed when it has ended, after Follow
	Shown     chan struct{} // closed when Out has all that its terminal shows; nil without one
}

// New returns a process that is not started.
func New(name string, args ...string) *Program {
	p := &Program{Cmd: exec.Command(name, args...), Exited: make(chan struct{})}
	p.Stdout, p.Stderr = &p.Out, &p.Errs
	p.WaitDelay = 5 * time.Second // a process that is left behind may keep the pipes open
	return p
}

// Follow awaits the end of the process, which was started. The caller kills it when its test ends.
func (p *Program) Follow() {
	go func() {
		defer close(p.Exited)
		_ = p.Wait()
		if p.Shown != nil {
			<-p.Shown
		}
	}()
}

// Kill ends the process, and waits for its end, after Follow.
func (p *Program) Kill() {
	_ = p.Process.Kill()
	<-p.Exited
}

// HasExited reports whether the process has ended.
func (p *Program) HasExited() bool {
	select {
	case <-p.Exited:
		return true
	default:
		return false
	}
}

// Number returns the number that the process has printed in a line after a word and =.
func (p *Program) Number(word string) (n int, err error) {
	_, rest, _ := strings.Cut("\n"+p.Out.String(), "\n"+word+"=")
	_, err = fmt.Sscan(rest, &n)
	return n, err
}

// State returns the letter of a process's state, if there is a /proc: T is stopped, Z a zombie.
func State(pid int) string {
	_, state, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return state
}

// Children returns what /proc, if there is one, says of a process's children, with those that were not waited for.
func Children(pid int) (children []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if text, _, parent := stat(path); parent == fmt.Sprint(pid) {
			children = append(children, text)
		}
	}
	return children
}

// NoneLeft returns an error if this process has children.
func NoneLeft() error {
	if children := Children(os.Getpid()); len(children) > 0 {
		return fmt.Errorf("processes: %.60q", children)
	}
	return nil
}

// stat returns nothing of a process that has ended.
func stat(path string) (text, state, parent string) {
	file, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(file), ") ") // "pid (name) state parent ..."
	if fields := strings.Fields(rest); len(fields) > 1 {
		state, parent = fields[0], fields[1]
	}
	return string(file), state, parent
}
