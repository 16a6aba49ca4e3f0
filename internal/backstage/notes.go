package backstage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/timeline"
)

// Notes are the faults that happened: in the test's log, counted, and as the rows of a picture. They are safe for
// concurrent use.
type Notes struct {
	Tracks *timeline.Recorder // nil if nobody draws
	Began  time.Time
	TB     testing.TB

	mu     sync.Mutex
	kinds  []string // in the order of their first
	counts map[string]int
}

// NewNotes returns Notes that begin now.
func NewNotes(tb testing.TB) *Notes {
	return &Notes{Began: time.Now(), TB: tb, counts: map[string]int{}}
}

// Log logs a line with the time since the begin.
func (n *Notes) Log(format string, args ...any) {
	n.TB.Helper()
	n.TB.Logf("+%v %s", time.Since(n.Began).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// Happened notes a fault of a kind, of a row or of nobody's, and logs the line.
func (n *Notes) Happened(row, kind, format string, args ...any) {
	n.TB.Helper()
	if n.Tracks != nil {
		n.Tracks.Mark(row, kind)
	}
	n.mu.Lock()
	if n.counts[kind] == 0 {
		n.kinds = append(n.kinds, kind)
	}
	n.counts[kind]++
	n.mu.Unlock()
	n.Log(format, args...)
}

// Begins notes that a row is in a state from now on, and Ends that it no longer is; "" is all states.
func (n *Notes) Begins(row string, state timeline.State, text string) {
	if n.Tracks != nil {
		n.Tracks.Add(row, timeline.Span{State: state, Text: text})
	}
}

func (n *Notes) Ends(row, text string) {
	if n.Tracks != nil {
		n.Tracks.End(row, text)
	}
}

// Told describes the faults that happened, with their counts.
func (n *Notes) Told() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.Clone(n.kinds)
	for i, kind := range all {
		if count := n.counts[kind]; count > 1 {
			all[i] = fmt.Sprintf("%s ×%d", kind, count)
		}
	}
	return strings.Join(all, ", ")
}
