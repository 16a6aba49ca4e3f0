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
	Tracks timeline.Recorder
	Began  time.Time
	TB     testing.TB

	mu     sync.Mutex
	kinds  []string // in the order of their first
	counts map[string]int
}

// NewNotes returns Notes whose rows count from the Unix epoch.
func NewNotes(tb testing.TB) *Notes {
	began := time.Now()
	now := func() time.Duration { return time.Duration(began.UnixNano()) + time.Since(began) }
	return &Notes{Tracks: timeline.Recorder{Now: now}, Began: began, TB: tb, counts: map[string]int{}}
}

// Log logs a line with the time since the begin.
func (n *Notes) Log(format string, args ...any) {
	n.TB.Helper()
	n.TB.Logf("+%v %s", time.Since(n.Began).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// Happened notes a fault of a kind, of a row or of nobody's, and logs the line.
func (n *Notes) Happened(row, kind, format string, args ...any) {
	n.TB.Helper()
	n.Tracks.Mark(row, kind)
	n.mu.Lock()
	if n.counts[kind] == 0 {
		n.kinds = append(n.kinds, kind)
	}
	n.counts[kind]++
	n.mu.Unlock()
	n.Log(format, args...)
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
