package timeline

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// leastWidth is how narrow lines may become.
const leastWidth = 40

// Write writes the picture as lines of text of the given width, 40 letters at least. Each state has a
// letter of its own, and with colour a colour of the terminal's. A text within a span stands in place of
// letters.
func (p *Picture) Write(w io.Writer, width int, colour bool) error {
	end, err := p.end()
	if err != nil {
		return err
	}
	t := &page{Picture: p, out: bufio.NewWriter(w), colour: colour}
	for _, row := range p.Rows {
		t.label = max(t.label, utf8.RuneCountInString(row.Label))
	}
	width = max(width, leastWidth)
	t.label = min(t.label, width/3)
	t.width = width - t.label - 2
	t.scale = float64(t.width) / end.Seconds()
	t.draw(end)
	return t.out.Flush()
}

// page is lines that are being written.
type page struct {
	*Picture
	out          *bufio.Writer
	colour       bool
	label, width int     // of the labels, and of the rest
	scale        float64 // letters for a second
}

func (t *page) draw(end time.Duration) {
	whole := t.label + 2 + t.width
	for _, line := range []string{t.Title, t.Verdict} {
		if line != "" {
			t.line(cut(line, whole))
		}
	}
	for _, row := range t.Rows {
		if row.Head != "" {
			t.line(cut(row.Head, whole))
		}
		if over := t.over(row.Marks); over != "" {
			t.line(strings.Repeat(" ", t.label+2) + over)
		}
		t.row(row.Label, row.Spans)
		if len(row.Below) > 0 {
			t.row("", row.Below)
		}
	}
	t.line(strings.Repeat(" ", t.label+2) + t.axis(end))
	var legend []string
	for _, s := range t.used() {
		legend = append(legend, fmt.Sprintf("%c %s", looks[s].glyph, s))
		if s == Holds {
			legend = append(legend, fmt.Sprintf("%c for a part of the time", partly))
		}
	}
	t.wrapped(legend, "   ", whole)
	t.wrapped(strings.Fields(t.Note), " ", whole)
}

func (t *page) line(text string) { fmt.Fprintln(t.out, strings.TrimRight(text, " ")) }

// wrapped writes pieces on as many lines as they need.
func (t *page) wrapped(pieces []string, separator string, width int) {
	line := ""
	for _, piece := range pieces {
		if line != "" && utf8.RuneCountInString(line+separator+piece) > width {
			t.line(line)
			line = ""
		}
		line = joinNonEmpty(separator, line, piece)
	}
	if line != "" {
		t.line(line)
	}
}

// row writes a label and cells.
func (t *page) row(name string, spans []Span) {
	row := fmt.Sprintf("%-*s  ", t.label, cut(name, t.label))
	cells := t.cells(spans)
	for k := 0; k < len(cells); {
		to := k
		for to < len(cells) && cells[to].state == cells[k].state {
			to++
		}
		row += t.letters(cells[k:to])
		k = to
	}
	t.line(row)
}

// cell is what stands in the place of a letter.
type cell struct {
	state State // 0 for none
	glyph rune
}

// letters returns cells of one state.
func (t *page) letters(cells []cell) string {
	var text strings.Builder
	for _, c := range cells {
		text.WriteRune(c.glyph)
	}
	if state := cells[0].state; t.colour && state != 0 {
		return fmt.Sprintf("\x1b[%sm%s\x1b[0m", looks[state].ansi, &text)
	}
	return text.String()
}

// cells returns what is shown of the spans: in each place the greatest state. A clash takes one place at least.
func (t *page) cells(spans []Span) []cell {
	cells := make([]cell, t.width)
	for i := range cells {
		cells[i].glyph = ' '
	}
	place := func(at time.Duration) int { return min(int(at.Seconds()*t.scale), t.width-1) }
	fill := func(s Span) {
		for k := place(s.From); k <= place(max(s.To-1, s.From)); k++ {
			if s.State > cells[k].state {
				cells[k] = cell{s.State, looks[s.State].glyph}
			}
		}
	}
	flat := flatten(spans)
	var held []Span
	for _, s := range flat {
		fill(s)
		if s.State == Holds {
			held = append(held, s)
		}
	}
	t.markPartly(cells, held)
	for _, s := range spans {
		if s.State == Clash {
			fill(s)
			flat = append(flat, s)
		}
	}
	for _, s := range flat {
		from, to, text := place(s.From), place(max(s.To-1, s.From))+1, []rune(" "+s.Text+" ")
		if s.Text == "" || to-from < len(text)+2 {
			continue
		}
		under := cells[from+1:][:len(text)]
		whole := cell{s.State, looks[s.State].glyph}
		if slices.ContainsFunc(under, func(c cell) bool { return c != whole }) {
			continue
		}
		for k, letter := range text {
			under[k].glyph = letter
		}
	}
	return cells
}

// partly is the letter for a time that a hold does not fill: parties that take turns faster than letters
// must not look as if they held at once.
const partly = '▒'

// markPartly puts that letter where holds fill a cell only in part.
func (t *page) markPartly(cells []cell, held []Span) {
	filled := make([]float64, len(cells))
	for _, s := range held {
		from, to := s.From.Seconds()*t.scale, s.To.Seconds()*t.scale
		for k := int(from); k < len(cells) && float64(k) < to; k++ {
			filled[k] += min(to, float64(k+1)) - max(from, float64(k))
		}
	}
	for k := range cells {
		if cells[k].state == Holds && filled[k] < 0.99 {
			cells[k].glyph = partly
		}
	}
}

// over returns the line above a row, with its marks.
func (t *page) over(marks []Mark) string {
	if len(marks) == 0 {
		return ""
	}
	letters := []rune(strings.Repeat(" ", t.width))
	width := func(text string) float64 { return float64(utf8.RuneCountInString(text)) + 2 }
	for _, l := range place(marks, t.scale, 40, float64(t.width), width) {
		copy(letters[int(l.at):], []rune("▾"+l.text))
	}
	for _, m := range marks {
		if k := min(int(m.At.Seconds()*t.scale), t.width-1); letters[k] == ' ' {
			letters[k] = '▾'
		}
	}
	return string(letters)
}

// axis returns the line with the seconds.
func (t *page) axis(end time.Duration) string {
	letters := []rune(strings.Repeat(" ", t.width))
	step := tick(end, t.width/6)
	for free, at := 0, time.Duration(0); at <= end; at += step {
		text, x := []rune(fmt.Sprintf("%gs", at.Seconds())), int(at.Seconds()*t.scale)
		if x < free || x+len(text) > t.width {
			continue
		}
		copy(letters[x:], text)
		free = x + len(text) + 2
	}
	return string(letters)
}
