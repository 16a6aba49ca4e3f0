package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

const (
	linesBefore = 12 // a violation
	linesAfter  = 4
)

// Timeline is what happened, line by line: faults, holders, accesses. The zero value is empty. Its methods
// must not be called at the same time.
type Timeline struct{ lines []moment }

type moment struct {
	at   int64
	text string
}

// Add adds a line at an instant, in any order.
func (t *Timeline) Add(at int64, format string, args ...any) {
	t.lines = append(t.lines, moment{at, fmt.Sprintf(format, args...)})
}

// Around returns the lines around an instant, or the last ones around [Unknown], each with its seconds since
// the origin.
func (t *Timeline) Around(at, origin int64) string {
	slices.SortStableFunc(t.lines, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	after := sort.Search(len(t.lines), func(i int) bool { return t.lines[i].at > at })
	var b strings.Builder
	for _, line := range t.lines[max(0, after-linesBefore):min(len(t.lines), after+linesAfter)] {
		fmt.Fprintf(&b, "%10.3f s  %s\n", time.Duration(line.at-origin).Seconds(), line.text)
	}
	return b.String()
}
