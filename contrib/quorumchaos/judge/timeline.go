package judge

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

// timeline is what happened, line by line: faults, holders, accesses.
type timeline []line

type line struct {
	at   int64
	text string
}

// add adds a line at an instant, in any order.
func (t *timeline) add(at int64, format string, args ...any) {
	*t = append(*t, line{at, fmt.Sprintf(format, args...)})
}

// around returns the lines around an instant, or the last ones around [history.Unknown], each with its seconds
// since the origin.
func (t timeline) around(at, origin int64) string {
	slices.SortStableFunc(t, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	after := sort.Search(len(t), func(i int) bool { return t[i].at > at })
	var b strings.Builder
	for _, l := range t[max(0, after-linesBefore):min(len(t), after+linesAfter)] {
		fmt.Fprintf(&b, "%10.3f s  %s\n", time.Duration(l.at-origin).Seconds(), l.text)
	}
	return b.String()
}
