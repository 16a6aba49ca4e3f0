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

var heights = map[string]int{title: 26, verdict: 22, isBad: 22, bar: 20, marks: 13, axis: 16, below: 16}

// style has the colours, in light and in dark mode, and the patterns. They are the same in all pictures, so that one
// page can have several.
//
//go:embed svg.txt
var style string

// SVG returns the picture as an SVG.
func (p *Picture) SVG() string {
	height, top, bottom := 12, 60, 0 // bottom is where the rows end, as top where they begin
	behind := make([]State, cells)
	var front, grid, out strings.Builder
	put := func(class string, x, y int, text string) {
		fmt.Fprintf(&front, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y+11, html.EscapeString(text))
	}
	for _, l := range p.lay(cells, 2) {
		y := height
		height += heights[l.class]
		if l.class == bar {
			l.label, bottom = cut(l.label, 18), height
		}
		if l.label != "" {
			put(l.class, 14, y, l.label)
		}
		paint(&front, l.cells, y, 15)
		for k, s := range l.cells {
			if l.class == bar && s == Clash {
				behind[k] = Clash
			}
		}
		for _, t := range l.texts {
			x := left + t.at*cell
			put(l.class+" in-"+looks[t.state].class, x, y, t.text)
			if l.class == axis {
				fmt.Fprintf(&grid, "M%d %dV%d", x, top, bottom)
			}
		}
	}
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="tl" role="img" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+
		"\n<title>%s: %s</title>\n%s"+`<rect class="back" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n"+`<g class="band">`,
		across, height+6, html.EscapeString(p.Title), p.Verdict(), style, across-1, height+5)
	paint(&out, behind, top, bottom-top)
	fmt.Fprintf(&out, "</g>\n"+`<path class="grid" d="%s"/>`+"\n%s</svg>\n", &grid, &front)
	return out.String()
}

// paint draws each state's cells, in one line.
func paint(out *strings.Builder, all []State, y, height int) {
	shapes := map[State]string{}
	for k, wide := 0, 0; k < len(all); k += wide {
		for wide = 1; k+wide < len(all) && all[k+wide] == all[k]; wide++ {
		}
		shapes[all[k]] += fmt.Sprintf("M%d %dh%dv%dh-%[3]dz", left+k*cell, y, wide*cell, height)
	}
	for state := Up; state <= Clash; state++ {
		if shapes[state] != "" {
			fmt.Fprintf(out, `<path class="%s" d="%s"/>`+"\n", looks[state].class, shapes[state])
		}
	}
}
