//go:build unix

package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
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

	killed bool
	err    error // of cmd.Wait, after exited
	unread error // lines that are no reports, after exited: a kill may cut off the last one

	mu      sync.Mutex
	reports []contender.Report
	history []history.Event
}

func startWorker(plan contender.Plan) (*worker, error) {
	path, err := program(plan.Kind)
	if err != nil {
		return nil, err
	}
	w := &worker{plan: plan, cmd: exec.Command(path), exited: make(chan struct{})}
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
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r contender.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			w.unread = errors.Join(w.unread, fmt.Errorf("%w: %q", err, lines.Text()))
			continue
		}
		if r.Did != contender.Recorded { // these would push out what else it has printed
			fmt.Fprintf(&w.printed, "%s\n", lines.Bytes())
		}
		w.mu.Lock()
		if r.Did == contender.Recorded {
			w.history = append(w.history, *r.Event)
		} else {
			w.reports = append(w.reports, r)
		}
		w.mu.Unlock()
	}
	w.unread = errors.Join(w.unread, lines.Err())
	w.err = w.cmd.Wait()
}

func (w *worker) all() []contender.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reports)
}

// next waits for a wanted report after those that were seen.
func (w *worker) next(bound time.Duration, wanted func(contender.Report) bool) (contender.Report, error) {
	at, why := -1, fmt.Sprintf("not within %v", bound)
	var unseen []contender.Report
	poll.Until(bound, func() bool {
		select {
		case <-w.exited:
			why = "has ended"
		default:
		}
		unseen = w.all()[w.seen:]
		at = slices.IndexFunc(unseen, wanted)
		return at >= 0 || why == "has ended"
	})
	if at < 0 {
		return contender.Report{}, fmt.Errorf("contender %d: %s; %v", w.plan.Client, why, &w.printed)
	}
	w.seen += at + 1
	return unseen[at], nil
}

func (w *worker) order(what string) { _, _ = io.WriteString(w.orders, what+"\n") }

// end stops the process in good order within the bound, and kills it after that. The error tells
// how its end was wrong.
func (w *worker) end(bound time.Duration) error {
	w.order(contender.Stop)
	late := time.AfterFunc(bound, func() { w.cmd.Process.Kill() })
	defer late.Stop()
	<-w.exited
	w.orders.Close()
	if w.killed {
		return nil
	}
	last := contender.Report{}
	if all := w.all(); len(all) > 0 {
		last = all[len(all)-1]
	}
	if err := errors.Join(w.err, w.unread); err != nil || last.Did != contender.Ended || last.Err != "" {
		return fmt.Errorf("contender %d ended with %v, last said %+v; %v", w.plan.Client, err, last, &w.printed)
	}
	return nil
}

// command is the kind of the operator's program.
const command = "quorumlock"

var (
	ownProgram      = built("own", ".", "../contender/own")
	redsyncProgram  = built(redsync, "../../bench", "./contender")
	operatorProgram = built(command, "../..", "./cmd/quorumlock")
)

// program returns the path of the program for a kind of contender, or of the operator's. The one for redsync is in bench, a
// module of its own: it cannot be built while that module's requirements are out of reach.
func program(kind string) (string, error) {
	switch kind {
	case redsync:
		return redsyncProgram()
	case command:
		return operatorProgram()
	}
	return ownProgram()
}

// built builds a program on its first use.
func built(name, module, source string) (path func() (string, error)) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(lab.scratch.dir, name)
		args := []string{"build", "-C", module, "-o", path}
		if *race {
			args = append(args, "-race")
		}
		out, err := exec.Command("go", append(args, source)...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build the program %s: %w: %s", name, err, out)
		}
		return path, nil
	})
}
