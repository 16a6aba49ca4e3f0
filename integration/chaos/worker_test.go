//go:build unix

package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
)

// worker is a contender's process. Where this process dies, the workers see the end of their input and end; stopped ones get
// SIGHUP from the kernel, as each is a process group of its own that nobody could continue any more, or meet the janitor.
type worker struct {
	plan    contender.Plan
	cmd     *exec.Cmd
	orders  io.WriteCloser
	stderr  bytes.Buffer
	exited  chan struct{}
	stopped bool // by the random walk
	seen    int  // how many of the reports the scenario has looked at, of a gated contender

	mu      sync.Mutex
	reports []contender.Report
	news    chan struct{} // closed when there is another report
	killed  bool
	err     error // of cmd.Wait; once exited
}

func startWorker(plan contender.Plan) (*worker, error) {
	path, err := program(plan.Kind)
	if err != nil {
		return nil, err
	}
	w := &worker{plan: plan, cmd: exec.Command(path), exited: make(chan struct{}), news: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.cmd.Stderr = &w.stderr
	if w.orders, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	said, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go w.listen(said)
	return w, json.NewEncoder(w.orders).Encode(plan)
}

func (w *worker) listen(said io.Reader) {
	defer close(w.exited)
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r contender.Report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // cut off: it was killed
		}
		w.mu.Lock()
		w.reports = append(w.reports, r)
		close(w.news)
		w.news = make(chan struct{})
		w.mu.Unlock()
	}
	err := w.cmd.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// all returns what was reported so far.
func (w *worker) all() []contender.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reports)
}

// next waits for a report, from the given one on, that is wanted. It returns the number of the one after it.
func (w *worker) next(from int, bound time.Duration, wanted func(contender.Report) bool) (contender.Report, int, error) {
	late := time.NewTimer(bound)
	defer late.Stop()
	for {
		w.mu.Lock()
		news := w.news
		for i := from; i < len(w.reports); i++ {
			if wanted(w.reports[i]) {
				defer w.mu.Unlock()
				return w.reports[i], i + 1, nil
			}
		}
		from = len(w.reports)
		w.mu.Unlock()
		select {
		case <-news:
		case <-w.exited:
			return contender.Report{}, from, fmt.Errorf("contender %d has ended: %s", w.plan.Client, w.stderr.String())
		case <-late.C:
			return contender.Report{}, from, fmt.Errorf("contender %d: not within %v", w.plan.Client, bound)
		}
	}
}

func (w *worker) order(what string) { _, _ = io.WriteString(w.orders, what+"\n") }

func (w *worker) signal(s syscall.Signal) error { return w.cmd.Process.Signal(s) }

// kill ends it as a crash would.
func (w *worker) kill() error {
	w.mu.Lock()
	w.killed = true
	w.mu.Unlock()
	err := w.cmd.Process.Kill()
	<-w.exited
	return err
}

// end has it finish in good order within the bound, and kills it else. The error says what is wrong with how it ended.
func (w *worker) end(bound time.Duration) error {
	w.order(contender.Stop)
	late := time.AfterFunc(bound, func() { w.cmd.Process.Kill() })
	defer late.Stop()
	<-w.exited
	w.orders.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killed {
		return nil
	}
	last := contender.Report{}
	if len(w.reports) > 0 {
		last = w.reports[len(w.reports)-1]
	}
	if w.err != nil || last.Did != contender.Ended || last.Err != "" {
		return fmt.Errorf("contender %d ended with %v, last said %+v: %s", w.plan.Client, w.err, last, w.stderr.String())
	}
	return nil
}
