package timeline

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// flatten returns what is seen of the spans other than clashes: none overlaps with another, in the order of
// time. A later span covers the earlier ones.
func flatten(spans []Span) (flat []Span) {
	var cuts []time.Duration
	var coming []int // by their begin
	for i, s := range spans {
		if s.State != Clash && s.From < s.To {
			cuts = append(cuts, s.From, s.To)
			coming = append(coming, i)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	slices.SortStableFunc(coming, func(a, b int) int { return cmp.Compare(spans[a].From, spans[b].From) })
	last, open := -1, latest{}
	for k := 1; k < len(cuts); k++ {
		from, to := cuts[k-1], cuts[k]
		for len(coming) > 0 && spans[coming[0]].From <= from {
			heap.Push(&open, coming[0])
			coming = coming[1:]
		}
		for len(open) > 0 && spans[open[0]].To <= from {
			heap.Pop(&open)
		}
		switch {
		case len(open) == 0:
			last = -1
		case open[0] == last:
			flat[len(flat)-1].To = to
		default:
			last = open[0]
			piece := spans[last]
			piece.From, piece.To = from, to
			flat = append(flat, piece)
		}
	}
	return flat
}

// latest is a heap of spans' places in their list, the last one on top.
type latest []int

func (l latest) Len() int           { return len(l) }
func (l latest) Less(i, k int) bool { return l[i] > l[k] }
func (l latest) Swap(i, k int)      { l[i], l[k] = l[k], l[i] }
func (l *latest) Push(x any)        { *l = append(*l, x.(int)) }
func (l *latest) Pop() any {
	old := *l
	x := old[len(old)-1]
	*l = old[:len(old)-1]
	return x
}

// run is one or more spans of a state, as they are drawn: from one place to another.
type run struct {
	from, to     float64
	state        State
	text, detail string // empty for several spans that differ
}

// legible is how wide a span must be, in gaps, to keep its own text beside a neighbour with another one.
const legible = 10

// runs returns those of a state. Spans with less than gap between them are one, unless they have different
// texts and are legible. None is narrower than least.
func runs(flat []Span, state State, scale, gap, least float64) (all []run) {
	for _, s := range flat {
		if s.State != state {
			continue
		}
		next := run{s.From.Seconds() * scale, s.To.Seconds() * scale, state, s.Text, s.Detail}
		next.to = max(next.to, next.from+least)
		if len(all) == 0 || next.from-all[len(all)-1].to >= gap {
			all = append(all, next)
			continue
		}
		before := &all[len(all)-1]
		overlap := next.from < before.to-least // by more than what least adds
		if before.text != next.text && min(before.to-before.from, next.to-next.from) >= legible*gap && gap > 0 && !overlap {
			all = append(all, next)
			continue
		}
		before.to = max(before.to, next.to)
		before.detail = ""
		if before.text != next.text {
			before.text = ""
		}
	}
	return all
}

func byTime(marks []Mark) []Mark {
	return slices.SortedStableFunc(slices.Values(marks), func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
}

// label is a text at a place.
type label struct {
	at, end float64
	text    string
}

// place puts the marks' texts side by side, each from its mark on. If the mark stands under the text
// before, or so near that its own would, its text is added to that one, which becomes most wide at most. A
// text without room is left out: its mark alone is drawn.
func place(marks []Mark, scale, most, end float64, width func(string) float64) (all []label) {
	for _, m := range byTime(marks) {
		if m.Text == "" {
			continue
		}
		next, last := label{at: m.At.Seconds() * scale, text: m.Text}, len(all)-1
		joins := last >= 0 && next.at < all[last].end
		if joins {
			next = label{at: all[last].at, text: all[last].text + ", " + m.Text}
		}
		wide := width(next.text)
		next.at = min(next.at, end-wide)
		next.end = next.at + wide
		switch {
		case next.at < 0 || joins && wide > most:
		case joins && (last == 0 || next.at >= all[last-1].end):
			all[last] = next
		case !joins && (last < 0 || next.at >= all[last].end):
			all = append(all, next)
		}
	}
	return all
}

// tick returns the distance of the axis's numbers: the smallest round one with which there are no more than most.
func tick(length time.Duration, most int) time.Duration {
	for _, d := range []time.Duration{100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000,
		300_000} {
		if d *= time.Millisecond; length/d < time.Duration(most) {
			return d
		}
	}
	return (length/time.Duration(most) + time.Minute).Round(time.Minute)
}
