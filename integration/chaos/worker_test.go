//go:build unix

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/child"
)

// worker is a contender's process. When this process dies, the workers see the end of their input
// and end. Stopped ones get SIGHUP from the kernel, because each is a process group of its own
// without a parent, or the janitor ends them.
type worker struct {
	plan    contender.Plan
	cmd     *exec.Cmd
	orders  io.WriteCloser
	printed child.Output
	exited  chan struct{}
	stopped bool // by the random walk
	seen    int  // the number of reports that the scenario has seen, of a gated contender

	mu      sync.Mutex
	reports []contender.Report
	changed chan struct{} // closed at the next report
	killed  bool
	err     error // of cmd.Wait, after exited
}

func startWorker(plan contender.Plan) (*worker, error) {
	path, err := program(plan.Kind)
	if err != nil {
		return nil, err
	}
	w := &worker{plan: plan, cmd: exec.Command(path), exited: make(chan struct{}), changed: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.cmd.Stderr = &w.printed
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
	lines := bufio.NewScanner(w.printed.Tee(said))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r contender.Report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // cut off by a kill
		}
		w.mu.Lock()
		w.reports = append(w.reports, r)
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
	err := w.cmd.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// all returns the reports so far.
func (w *worker) all() []contender.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reports)
}

// next waits for a wanted report, from the given one on. It returns the report and the number of
// the next one.
func (w *worker) next(from int, bound time.Duration, wanted func(contender.Report) bool) (contender.Report, int, error) {
	late := time.NewTimer(bound)
	defer late.Stop()
	for {
		w.mu.Lock()
		changed := w.changed
		for i := from; i < len(w.reports); i++ {
			if wanted(w.reports[i]) {
				defer w.mu.Unlock()
				return w.reports[i], i + 1, nil
			}
		}
		from = len(w.reports)
		w.mu.Unlock()
		select {
		case <-changed:
		case <-w.exited:
			return contender.Report{}, from, fmt.Errorf("contender %d has ended; %v", w.plan.Client, &w.printed)
		case <-late.C:
			return contender.Report{}, from, fmt.Errorf("contender %d: not within %v; %v", w.plan.Client, bound, &w.printed)
		}
	}
}

func (w *worker) order(what string) { _, _ = io.WriteString(w.orders, what+"\n") }

func (w *worker) signal(s syscall.Signal) error { return w.cmd.Process.Signal(s) }

// kill ends the process as a crash would.
func (w *worker) kill() error {
	w.mu.Lock()
	w.killed = true
	w.mu.Unlock()
	err := w.cmd.Process.Kill()
	<-w.exited
	return err
}

// end stops the process in good order within the bound, and kills it after that. The error tells
// how its end was wrong.
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
		return fmt.Errorf("contender %d ended with %v, last said %+v; %v", w.plan.Client, w.err, last, &w.printed)
	}
	return nil
}

// command is the kind of the operator's program.
const command = "quorumlock"

// binaries are the programs of contenders and of the operator. Each is built on its first use.
var binaries struct {
	mu    sync.Mutex
	dir   string
	built map[string]error
}

// program builds the program for a kind of contender, or the operator's, and returns its path. The program for redsync
// is in bench, a module of its own: it cannot be built while that module's requirements are out of
// reach.
func program(kind string) (string, error) {
	name, source, args := "own", "../contender/own", []string{"build"}
	switch kind {
	case "redsync":
		name, source, args = "redsync", "./contender", []string{"build", "-C", "../../bench"}
	case command:
		name, source, args = command, "./cmd/quorumlock", []string{"build", "-C", "../.."}
	}
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if binaries.dir == "" {
		var err error
		if binaries.dir, err = os.MkdirTemp("", "quorumlock-contenders-"); err != nil {
			return "", err
		}
		binaries.built = map[string]error{}
	}
	path := filepath.Join(binaries.dir, name)
	err, known := binaries.built[name]
	if !known {
		if *race {
			args = append(args, "-race")
		}
		out, failed := exec.Command("go", append(args, "-o", path, source)...).CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("build the program %s: %w: %s", name, failed, out)
		}
		binaries.built[name] = err
	}
	return path, err
}
