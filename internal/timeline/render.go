package timeline

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// Text returns the picture as lines of text of the given width, 40 letters at least. With colour each state has
// one of the terminal's.
func (p *Picture) Text(width int, colour bool) string {
	width = max(width, 40)
	label := 0
	for _, row := range p.Rows {
		label = min(max(label, utf8.RuneCountInString(row.Label)), width/3)
	}
	var out strings.Builder
	for _, l := range p.lay(width-label-2, 1) {
		if l.cells == nil {
			fmt.Fprintln(&out, cut(l.label, width))
			continue
		}
		shown := fmt.Sprintf("%-*s  ", label, cut(l.label, label))
		for k := 0; k < len(l.cells); {
			letters, state := "", l.cells[k]
			for ; k < len(l.cells) && l.cells[k] == state; k++ {
				letters += l.letter(k)
			}
			if colour && state != 0 {
				letters = fmt.Sprintf("\x1b[%sm%s\x1b[0m", looks[state].ansi, letters)
			}
			shown += letters
		}
		fmt.Fprintln(&out, strings.TrimRight(shown, " "))
	}
	return out.String()
}

// letter returns what stands in a cell.
func (l line) letter(k int) string {
	for _, t := range l.texts {
		if letters := []rune(t.text); k >= t.at && k < t.at+len(letters) {
			return string(letters[k-t.at])
		}
	}
	return looks[l.cells[k]].glyph
}

// cut returns the first letters of a text that is longer.
func cut(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}

// The measures of an SVG, in its pixels. A letter is two cells: a fixed font of 10 pixels is 6 wide.
const (
	left   = 130 // where time begins
	cell   = 3
	cells  = 242
	across = left + cells*cell + 20
)

var heights = map[kind]int{title: 26, verdict: 22, row: 20, marks: 13, axis: 16, note: 16}

// style has the colours, in light and in dark mode, and the patterns. They are the same in all pictures, so that one
// page can have several.
//
//go:embed svg.txt
var style string

// SVG returns the picture as an SVG.
func (p *Picture) SVG() string {
	lines := p.lay(cells, 2)
	top, bottom := 0, 0 // of the rows
	height := 12
	clash := make([]State, cells)
	var body strings.Builder
	for _, l := range lines {
		y := height
		height += heights[l.kind]
		switch l.kind {
		case verdict:
			top = height
		case axis:
			bottom = y
		case row:
			for k, s := range l.cells {
				if s == Clash {
					clash[k] = Clash
				}
			}
		}
		class := [...]string{title: "t", verdict: "v", row: "l", marks: "s", axis: "s d", note: "s d"}[l.kind]
		if l.label != "" {
			x, class := 14, class
			if l.kind == row {
				l.label = cut(l.label, 18)
			} else if l.kind == note {
				x = left
			} else if l.kind == verdict && !strings.HasPrefix(l.label, "Never") {
				class = "v bad"
			}
			fmt.Fprintf(&body, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y+11, html.EscapeString(l.label))
		}
		paint(&body, l.cells, y, 15)
		for _, t := range l.texts {
			class := class
			if t.state != 0 {
				class = "s t" + looks[t.state].class
			}
			fmt.Fprintf(&body, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, left+t.at*cell, y+11,
				html.EscapeString(t.text))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="tl" role="img" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+
		"\n<title>%s: %s</title>\n%s"+`<rect class="back" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n", across, height+6,
		html.EscapeString(p.Title), p.Verdict(), style, across-1, height+5)
	out.WriteString("<g class=\"band\">\n")
	paint(&out, clash, top, bottom-top)
	out.WriteString("</g>\n")
	for _, l := range lines {
		for _, t := range l.texts {
			if l.kind == axis {
				fmt.Fprintf(&out, `<path class="grid" d="M%d %dV%d"/>`+"\n", left+t.at*cell, top, bottom)
			}
		}
	}
	return out.String() + body.String() + "</svg>\n"
}

// paint draws each state's cells, in one line.
func paint(out *strings.Builder, all []State, y, height int) {
	for state := Up; state <= Clash; state++ {
		shape := ""
		for k := 0; k < len(all); k++ {
			from := k
			for k < len(all) && all[k] == state {
				k++
			}
			if wide := (k - from) * cell; wide > 0 {
				shape += fmt.Sprintf("M%d %dh%dv%dh-%dz", left+from*cell, y, wide, height, wide)
			}
		}
		if shape != "" {
			fmt.Fprintf(out, `<path class="%s" d="%s"/>`+"\n", looks[state].class, shape)
		}
	}
}
