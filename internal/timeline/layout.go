package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// looks are the states' names in the legend, their letters, the letters' colours on a terminal, and their
// classes in an SVG. No two have the same letter or pattern: colours are not needed to tell them apart.
var looks = [...]struct {
	word, glyph, ansi, class string
}{
	0:          {"", " ", "", ""},
	Up:         {"up", "━", "32", "up"},
	Hindered:   {"hindered", "-", "36", "hi"},
	Quarantine: {"in quarantine", "~", "33", "qu"},
	Down:       {"down", "x", "90", "do"},
	Waits:      {"waits", "·", "90", "wa"},
	partly:     {"part of the time", "▒", "34", "pa"},
	Holds:      {"holds the lock", "█", "34", "ho"},
	Clash:      {"two hold at once", "!", "1;31", "cl"},
}

// line is a line of a picture. One without cells is its label, in all of the width.
type line struct {
	class string // of its texts, in an SVG
	label string
	cells []State // 0 for nothing
	texts []text  // over the cells
}

// The classes of lines.
const (
	title, verdict, isBad   = "t", "v", "v bad"
	bar, marks, axis, below = "b", "m", "x", "n"
)

// text begins at a cell, in the place of a state, or of none.
type text struct {
	at    int
	text  string
	state State
}

// canvas has width cells in a line, and letter cells to a letter.
type canvas struct {
	width, letter int
	begin, length int64 // nanoseconds
}

// lay puts the picture into lines.
func (p *Picture) lay(width, letter int) []line {
	begin, end := p.extent()
	c := &canvas{width, letter, int64(begin), max(int64(end-begin), 1)}
	tokens, used := p.tokens(), []State{0}
	lines := []line{{class: title, label: p.Title}, {class: verdict, label: p.Verdict()}}
	for _, r := range p.Rows {
		if len(r.Marks) > 0 {
			lines = append(lines, line{marks, "", make([]State, width), c.marks(r.Marks)})
		}
		cells := c.cells(r.Spans)
		used = append(used, cells...)
		lines = append(lines, line{bar, r.Label, cells, c.within(r.Spans, cells, tokens)})
	}
	lines = append(lines, c.axis())
	slices.Sort(used)
	if slices.Max(used) == Clash {
		lines[1].class = isBad
	}
	lines = append(lines, c.legend(slices.Compact(used))...)
	if len(tokens) > 0 {
		lines = append(lines, line{below, "", make([]State, width), []text{{0, "#1, #2, …: fencing tokens in order", 0}}})
	}
	return lines
}

func (c *canvas) place(at time.Duration) int {
	return min(int((int64(at)-c.begin)*int64(c.width)/c.length), c.width-1)
}

// ends returns the first and the last cell of a span. It has one at least: no clash is too short to be seen.
func (c *canvas) ends(s Span) (from, to int) {
	to = c.width - 1
	if s.To != Open {
		to = c.place(max(s.To-1, s.From))
	}
	return c.place(s.From), to
}

// room returns how many cells a text takes.
func (c *canvas) room(text string) int { return c.letter * utf8.RuneCountInString(text) }

// cells returns what is shown of the spans. Parties that take turns faster than cells must not look as if they
// held at once: a hold fills only cells that are in it from their begin to their end.
func (c *canvas) cells(spans []Span) []State {
	cells := make([]State, c.width)
	for _, s := range spans {
		from, to := c.ends(s)
		for k := from; k <= to; k++ {
			state, wide := s.State, int64(c.width)
			if state == Holds && ((int64(s.From)-c.begin)*wide > int64(k)*c.length ||
				s.To != Open && int64(k+1)*c.length > (int64(s.To)-c.begin)*wide) {
				state = partly
			}
			cells[k] = max(cells[k], state)
		}
	}
	return cells
}

// tokens returns all spans' tokens, each once, from the lowest.
func (p *Picture) tokens() (all []uint64) {
	for _, row := range p.Rows {
		for _, s := range row.Spans {
			if s.Token > 0 {
				all = append(all, s.Token)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// within returns the spans' texts for which there is room, in cells of their state alone.
func (c *canvas) within(spans []Span, cells []State, tokens []uint64) (all []text) {
	free := slices.Clone(cells)
	for _, s := range spans {
		shown := s.Text
		if s.Token > 0 {
			rank, _ := slices.BinarySearch(tokens, s.Token)
			shown = strings.TrimSpace(fmt.Sprintf("%s #%d", s.Text, rank+1))
		}
		from, to := c.ends(s)
		room := c.room(" " + shown + " ")
		for k := from + 1; shown != "" && k+room <= to; k++ {
			under := free[k : k+room]
			if slices.Min(under) == s.State && slices.Max(under) == s.State {
				clear(under)
				all = append(all, text{k, " " + shown + " ", s.State})
				break
			}
		}
	}
	return all
}

// marks returns a triangle for each mark, and the texts: alongside it, after the text before if that is in the way,
// or left out if there is no room.
func (c *canvas) marks(marks []Mark) (all []text) {
	marks = slices.SortedStableFunc(slices.Values(marks), func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	free := 0 // no text is from here on
	for _, m := range marks {
		at, wide, n := c.place(m.At), c.room("▾"+m.Text), len(all)
		before := min(at+c.letter, c.width) - wide
		switch {
		case at >= free && at+wide <= c.width:
			all, free = append(all, text{at, "▾" + m.Text, 0}), at+wide
		case before >= free:
			all, free = append(all, text{before, m.Text + "▾", 0}), c.width
		case at < free && free+c.room(", "+m.Text) <= min(c.width, all[n-1].at+c.room(strings.Repeat(" ", 40))):
			all[n-1].text += ", " + m.Text
			free += c.room(", " + m.Text)
		case at >= free && at+c.letter <= c.width:
			all, free = append(all, text{at, "▾", 0}), at+c.letter
		}
	}
	return all
}

func (c *canvas) axis() line {
	step := 100 * time.Millisecond
	for i := 0; int64(step)*int64(c.width) < 6*int64(c.letter)*c.length; i++ {
		step = []time.Duration{step * 2, step / 2 * 5, step * 2}[i%3] // 1, 2, 5, 10
	}
	l := line{class: axis, cells: make([]State, c.width)}
	for at := time.Duration(0); int64(at) <= c.length; at += step {
		shown := fmt.Sprintf("%gs", at.Seconds())
		if k := c.place(at + time.Duration(c.begin)); k+c.room(shown) <= c.width {
			l.texts = append(l.texts, text{k, shown, 0})
		}
	}
	return l
}

// legend returns lines with the states.
func (c *canvas) legend(states []State) (lines []line) {
	free := c.width
	for _, s := range states {
		wide := c.room("xx " + looks[s].word + "   ")
		if s == 0 {
			continue
		}
		if free+wide > c.width+c.room("   ") {
			lines, free = append(lines, line{class: below, cells: make([]State, c.width)}), 0
		}
		l := &lines[len(lines)-1]
		for k := range 2 * c.letter {
			l.cells[free+k] = s
		}
		l.texts = append(l.texts, text{free + 3*c.letter, looks[s].word, 0})
		free += wide
	}
	return lines
}
