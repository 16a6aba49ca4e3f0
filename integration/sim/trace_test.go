package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// trace is what happened in a run, put into words only when somebody asks.
type trace struct {
	start time.Time

	mu    sync.Mutex
	lines []line
}

type line struct {
	at     time.Duration
	format string
	args   []any
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{time.Since(t.start), format, args})
}

// tell returns the last lines, at most so many, in the order of time.
func (t *trace) tell(most int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	if left := len(t.lines) - most; left > 0 {
		fmt.Fprintf(&b, "(%d earlier lines: -sim.trace tells more)\n", left)
	}
	for _, l := range t.lines[max(0, len(t.lines)-most):] {
		fmt.Fprintf(&b, "%12v  %s\n", l.at, fmt.Sprintf(l.format, l.args...))
	}
	return b.String()
}

// script is fake.Master's Trace.
func (t *trace) script(master int) func(script string, args []string, reply any, err error) {
	return func(script string, args []string, reply any, err error) {
		if err != nil {
			reply = err
		}
		t.add("  master %d  %s %v: %v", master, script, arguments(args), reply)
	}
}

// arguments are a script's, shown without the keys that are the library's own.
type arguments []string

func (a arguments) String() string {
	own := func(arg string) bool { return strings.HasPrefix(arg, scripts.Prefix) }
	return fmt.Sprint(slices.DeleteFunc(slices.Clone([]string(a)), own))
}
