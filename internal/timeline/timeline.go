// Package timeline draws who was in which state when: a row for each party, time from left to right.
// It draws an SVG picture, readable in light and dark mode and without colours, and lines for a
// terminal. It knows nothing of what the parties are.
//
// A new row is its caller's: the demo in cmd/quorumlock, and integration/pictures. A new state is a
// constant here and its look in state.go, with a class in the rules there. layout.go places what
// svg.go and text.go draw.
package timeline

import (
	"fmt"
	"slices"
	"time"
)

// State is what a party is in for some time. Where there is room for one state only, the greater
// one is shown.
type State int

// The states of a server, and then those of a client.
const (
	Up         State = iota + 1
	Hindered         // slow, full, or not heard by all
	CutOff           // from some or all
	Quarantine       // up, and grants nothing
	Frozen
	Dead
	Waits
	Holds
	// Clash is a hold while another one should be alone. It covers all other states, is wide enough
	// to be seen however short it was, and is marked in all rows.
	Clash
)

// Span is a time in one state: from From until just before To, counted from the picture's begin.
type Span struct {
	From, To time.Duration
	State    State
	Text     string // a few words, drawn if there is room
	Detail   string // a tooltip in the SVG
}

// Mark is something that happened in an instant.
type Mark struct {
	At   time.Duration
	Text string // a word or two
}

// Row is a party.
type Row struct {
	Head  string // above the row; "" for none
	Label string
	Spans []Span // a later one covers the earlier ones
	Below []Span // the same, in a narrower line below
	Marks []Mark
}

// Picture is rows over the same time. It may be drawn several times, also at once.
type Picture struct {
	Title   string
	Verdict string // a line below the title; red if there is a [Clash]
	About   string // for who cannot see the picture
	Note    string // below the legend; "" for none
	Rows    []Row
}

// end returns the length of the picture, or an error that names what cannot be drawn.
func (p *Picture) end() (end time.Duration, err error) {
	for _, row := range p.Rows {
		for _, s := range slices.Concat(row.Spans, row.Below) {
			switch {
			case s.State < Up || s.State > Clash:
				return 0, fmt.Errorf("timeline: row %q: the span from %v has the unknown state %d", row.Label, s.From,
					int(s.State))
			case s.From < 0:
				return 0, fmt.Errorf("timeline: row %q: a span begins at %v, before the picture", row.Label, s.From)
			case s.To < s.From:
				return 0, fmt.Errorf("timeline: row %q: the span from %v ends before, at %v", row.Label, s.From, s.To)
			}
			end = max(end, s.To)
		}
		for _, m := range row.Marks {
			if m.At < 0 {
				return 0, fmt.Errorf("timeline: row %q: the mark %q is at %v, before the picture", row.Label,
					m.Text, m.At)
			}
			end = max(end, m.At)
		}
	}
	if end == 0 {
		return 0, fmt.Errorf("timeline: nothing to draw in %q", p.Title)
	}
	return end, nil
}

// clashes returns the clashes of all rows.
func (p *Picture) clashes() (all []Span) {
	for _, row := range p.Rows {
		all = append(all, clashesOf(row)...)
	}
	return all
}

func clashesOf(row Row) (all []Span) {
	for _, s := range slices.Concat(row.Spans, row.Below) {
		if s.State == Clash {
			all = append(all, s)
		}
	}
	return all
}

// used returns the states that occur, in their order: those of the legend.
func (p *Picture) used() (all []State) {
	for _, row := range p.Rows {
		for _, s := range slices.Concat(row.Spans, row.Below) {
			all = append(all, s.State)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
