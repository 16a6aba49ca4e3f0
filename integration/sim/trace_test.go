package sim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/scripts"
)

// trace is the log of a run, formatted only on demand.
type trace struct {
	start time.Time

	mu    sync.Mutex
	lines []line
}

type line struct {
	at     time.Duration
	from   string // the client whose connection a script came from
	format string
	args   []any
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{time.Since(t.start), "", format, args})
}

// last returns the last lines, `most` at most, in the order of time.
func (t *trace) last(most int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	if left := len(t.lines) - most; left > 0 {
		fmt.Fprintf(&b, "(%d earlier lines: -sim.trace prints more)\n", left)
	}
	for _, l := range t.lines[max(0, len(t.lines)-most):] {
		fmt.Fprintln(&b, l)
	}
	return t.lockersLocked().Replace(b.String())
}

func (l line) String() string { return fmt.Sprintf("%12v  %s", l.at, fmt.Sprintf(l.format, l.args...)) }

// sorted returns all lines in the order of time, and one instant's in alphabetical order, and then the events.
func (w *run) sorted() []string {
	w.trace.mu.Lock()
	defer w.trace.mu.Unlock()
	lines, lockers := make([]string, len(w.trace.lines)), w.trace.lockersLocked()
	first := 0
	for i, l := range w.trace.lines {
		lines[i] = lockers.Replace(l.String())
		if l.at != w.trace.lines[first].at {
			first = i
		}
		slices.Sort(lines[first : i+1])
	}
	var events []string
	for _, e := range w.events {
		events = append(events, lockers.Replace(fmt.Sprintf("%+v", e)))
	}
	return append(lines, slices.Sorted(slices.Values(events))...)
}

// lockersLocked replaces each locker's random uuid by its process' name.
var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func (t *trace) lockersLocked() *strings.Replacer {
	var pairs []string
	known := map[string]bool{}
	for _, l := range t.lines {
		if l.from == "" || known[l.from] {
			continue
		}
		if uuid := uuids.FindString(fmt.Sprint(l.args[2])); uuid != "" { // a reply may have another one's
			known[l.from] = true
			pairs = append(pairs, uuid, l.from)
		}
	}
	return strings.NewReplacer(pairs...)
}

// script is called before a master answers.
func (t *trace) script(s world.Script) {
	reply := s.Reply
	if s.Err != nil {
		reply = s.Err
	}
	process, _, _ := strings.Cut(s.Client, ":")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{time.Since(t.start), process, "  master %d  %s %v: %v",
		[]any{s.Master, s.Name, arguments(s.Args), reply}})
}

// arguments are a script's, without the library's own keys.
type arguments []string

func (a arguments) String() string {
	own := func(arg string) bool { return strings.HasPrefix(arg, scripts.Prefix) }
	return fmt.Sprint(slices.DeleteFunc(slices.Clone([]string(a)), own))
}

// totals are the events of many runs: they prove that the simulation reaches the cases it is for.
type totals struct {
	mu      sync.Mutex
	runs    int
	counts  map[string]int
	longest time.Duration
}

func (s *totals) add(w *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	for what, n := range w.counts {
		s.counts[what] += n
	}
	s.longest = max(s.longest, w.longest)
}

func (s *totals) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs; the longest wait after all faults had ended was %v", s.runs, s.longest)
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&b, "\n%8d %s", s.counts[what], what)
	}
	return b.String()
}

// want fails the test if an event happened more seldom per run than that, in a number of runs that is enough to tell.
func (s *totals) want(t *testing.T, enough int, perRun map[string]float64) {
	t.Helper()
	if *oneSeed != 0 || s.runs < enough {
		return
	}
	for what, least := range perRun {
		testkit.Check(t, float64(s.counts[what]) >= least*float64(s.runs),
			"%q happened %d times in %d runs, want at least %v per run", what, s.counts[what], s.runs, least)
	}
}
