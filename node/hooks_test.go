package node_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

// seen collects the events of a node's hooks.
type seen struct {
	mu      sync.Mutex
	states  []node.StateEvent
	scripts []node.ScriptEvent
}

func (s *seen) hooks() node.Hooks {
	return node.Hooks{
		StateChanged: func(e node.StateEvent) { s.mu.Lock(); s.states = append(s.states, e); s.mu.Unlock() },
		ScriptEnded:  func(e node.ScriptEvent) { s.mu.Lock(); s.scripts = append(s.scripts, e); s.mu.Unlock() },
	}
}

func (s *seen) lastState() (last node.StateEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.states); n > 0 {
		last = s.states[n-1]
	}
	return last
}

func (s *seen) all() []node.StateEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.states)
}

// lastRun returns the last run of a script, and how many there were.
func (s *seen) lastRun(script string) (last node.ScriptEvent, runs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.scripts {
		if e.Script == script {
			last, runs = e, runs+1
		}
	}
	return last, runs
}

// The hook is told of each state in its turn, and the node has the state that it was told last.
func TestStateChanged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		var s seen
		n := openQuarantined(t, m.URL(), short, node.WithTimeout(timeout), node.WithHooks(s.hooks()))
		becomes := func(want string) node.StateEvent {
			t.Helper()
			testkit.Eventually(t, fmt.Sprint("the hook is told of ", want), func() bool {
				do(t, n, acquireFor(short, "k", "o:1"))
				return s.lastState().State == want
			})
			e := s.lastState()
			testkit.Equal(t, e.Node, nodeName, "the event's node")
			return e
		}
		testkit.Equal(t, n.State(), inside.Unknown, "the state before the first call")
		left := becomes(inside.Quarantined).Quarantine
		testkit.Check(t, left > 0 && left <= short && n.State() == inside.Quarantined,
			"the quarantine of %v has %v left, and the state is %v", short, left, n.State())
		testkit.Eventually(t, "up by the clock", func() bool { return n.State() == inside.Up })

		testkit.Must(t, m.Kill())
		err := becomes(inside.Down).Err
		testkit.Check(t, err != nil && n.State() == inside.Down, "down with the error %v, and the state is %v", err, n.State())
		testkit.Equal(t, n.LastError().Code(), "connection", "the last error of a killed master")
		testkit.Must(t, m.Start())
		testkit.Eventually(t, "up again", func() bool { return n.State() != inside.Down })
		testkit.Check(t, slices.ContainsFunc(s.all(), func(e node.StateEvent) bool { return e.State == inside.Up }),
			"the hook never got the node's state up: %v", s.all())
	})
}

// Each call's run of a script is told once: a grant, an error of the server's, a timeout.
func TestScriptEnded(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	var s seen
	n := open(t, m.URL(), node.WithHooks(s.hooks()), node.WithTimeout(timeout))
	began := time.Now()
	mark(t, n)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	told := func(script string, runs int, kind string) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprint(script, " told ", runs, " times"), func() bool { _, n := s.lastRun(script); return n == runs })
		e, _ := s.lastRun(script)
		got := ""
		if failed, ok := errors.AsType[*node.Error](e.Err); ok {
			got = failed.Code()
		}
		testkit.Check(t, e.Node == nodeName && e.Address == m.Addr() && e.Duration > 0 && e.Duration <= time.Since(began) &&
			got == kind, "%s: told %+v, of kind %q", script, e, got)
	}
	told("acquire", 1, "")
	testkit.Do(t, m, "SET", "text", "x")
	do(t, n, acquire("text", "o:1"))
	told("acquire", 2, "WRONGTYPE")
	testkit.Must(t, m.Freeze())
	do(t, n, release("k", "o:1"))
	testkit.Must(t, m.Thaw())
	told("release", 1, "timeout")
	e, _ := s.lastRun("release")
	testkit.Check(t, e.Duration >= timeout, "a call that timed out after %v took %v", timeout, e.Duration)
}
