// Package timeline draws who was in which state when: a row for each party, time from left to right. What
// happens is noted by a [Recorder], or known afterwards. layout.go puts a [Picture] into cells, one place for a
// state each, and render.go writes those as letters and as an SVG.
//
// A new row is its caller's: the demo in cmd/quorumlock, and integration/chaos. A new state is a constant
// here, its look in layout.go, and its class in svg.txt.
package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// State is what a party is in for some time. Where several share a cell, the greatest one is shown.
type State int

// The states of a server, then of a client.
const (
	Up         State = iota + 1
	Hindered         // slow, full, or not reached by all
	Quarantine       // up, and grants nothing
	Down             // dead, frozen, or reached by none
	Waits
	partly // Holds, for a part of a cell's time
	Holds
	Clash // holds while another one should be alone
)

// Open is the To of a span that goes on until the end of the picture.
const Open time.Duration = math.MaxInt64

// Span is a time in one state: from From until just before To, on any clock.
type Span struct {
	From, To time.Duration
	State    State
	Text     string // a word or two, shown if there is room
	Token    uint64 // of a hold, or 0: shown as #1, #2, … from the lowest
}

// Mark is something that happened in an instant.
type Mark struct {
	At   time.Duration
	Text string
}

// Row is a party.
type Row struct {
	Label string
	Spans []Span
	Marks []Mark
}

// Picture is rows over the same time.
type Picture struct {
	Title string
	Rows  []Row
}

// Verdict says for how long there were too many holders.
func (p *Picture) Verdict() string {
	var clashes []Span
	for _, row := range p.Rows {
		clashes = append(clashes, slices.DeleteFunc(slices.Clone(row.Spans), func(s Span) bool { return s.State != Clash })...)
	}
	slices.SortFunc(clashes, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	_, end := p.extent()
	total, until := time.Duration(0), time.Duration(math.MinInt64)
	for _, s := range clashes {
		total += max(min(s.To, end)-max(s.From, until), 0)
		until = max(until, s.To)
	}
	if clashes == nil {
		return "Never two holders of the lock"
	}
	return fmt.Sprintf("Two holders of the lock, for %v", total.Round(time.Millisecond))
}

// extent returns the first and the last instant that is known.
func (p *Picture) extent() (begin, end time.Duration) {
	var known []time.Duration
	for _, row := range p.Rows {
		for _, s := range row.Spans {
			known = append(known, s.From, s.To)
		}
		for _, m := range row.Marks {
			known = append(known, m.At)
		}
	}
	if known = slices.DeleteFunc(known, func(at time.Duration) bool { return at == Open }); len(known) == 0 {
		return 0, 0
	}
	return slices.Min(known), slices.Max(known)
}

// Recorder notes what happens to parties, by their labels. It is safe for concurrent use.
type Recorder struct {
	Now func() time.Duration

	mu   sync.Mutex
	rows map[string]*Row
}

func (r *Recorder) rowLocked(label string) *Row {
	if r.rows == nil {
		r.rows = map[string]*Row{}
	}
	if r.rows[label] == nil {
		r.rows[label] = &Row{Label: label}
	}
	return r.rows[label]
}

// Add notes a span. A From of 0 is now, a To of 0 is [Open].
func (r *Recorder) Add(label string, s Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.From, s.To = cmp.Or(s.From, r.Now()), cmp.Or(s.To, Open)
	row := r.rowLocked(label)
	row.Spans = append(row.Spans, s)
}

// End ends what goes on with the text now; with "", all that goes on.
func (r *Recorder) End(label, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.rowLocked(label)
	for i, s := range row.Spans {
		if s.To == Open && (text == "" || s.Text == text) {
			row.Spans[i].To = r.Now()
		}
	}
}

// Mark notes that something happens now.
func (r *Recorder) Mark(label, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.rowLocked(label)
	row.Marks = append(row.Marks, Mark{r.Now(), text})
}

// Rows returns the label's row, and after it those with anything in them whose labels go on after a space.
func (r *Recorder) Rows(label string) []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []Row{*r.rowLocked(label)}
	for other, row := range r.rows {
		if strings.HasPrefix(other, label+" ") && len(row.Spans)+len(row.Marks) > 0 {
			all = append(all, *row)
		}
	}
	slices.SortFunc(all, func(a, b Row) int { return strings.Compare(a.Label, b.Label) })
	for i := range all {
		all[i].Spans, all[i].Marks = slices.Clone(all[i].Spans), slices.Clone(all[i].Marks)
	}
	return all
}
