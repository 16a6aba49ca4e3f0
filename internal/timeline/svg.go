package timeline

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxBytes bounds an SVG.
const MaxBytes = 60_000

// The measures of an SVG, in its pixels.
const (
	pageWidth  = 880.0
	left       = 132.0 // where time begins
	plotWidth  = pageWidth - left - 20
	barHeight  = 18.0
	lineHeight = 13.0 // of marks' texts, and of the line below
	rowGap     = 7.0
	leastClash = 3.0 // the width of a clash, at least
)

// textWidth returns how much room a text of 11 pixels needs: rather too much than too little.
func textWidth(text string) float64 { return 6.3*float64(utf8.RuneCountInString(text)) + 6 }

// resolution is how much an SVG draws: spans and marks with less than gap between them as one, and a tooltip
// for each span that is as wide as detailed.
type resolution struct{ gap, detailed float64 }

var finest = resolution{1, 4}

// WriteSVG writes the picture as an SVG of [MaxBytes] at most. If there are too many spans for that, those
// of one state that are close together are drawn as one; of clashes that hides none, and shows too much
// red rather than too little. An error names what cannot be drawn.
func (p *Picture) WriteSVG(w io.Writer) error {
	end, err := p.end()
	if err != nil {
		return err
	}
	d := &drawing{Picture: p, end: end, scale: plotWidth / end.Seconds()}
	for _, row := range p.Rows {
		d.rows = append(d.rows, flatRow{row, flatten(row.Spans), flatten(row.Below), clashesOf(row)})
	}
	for _, f := range []resolution{finest, {1, 20}, {2, 40}, {4, 80}, {8, 160}, {16, pageWidth}, {64, pageWidth}} {
		if svg := d.draw(f); len(svg) <= MaxBytes {
			_, err := w.Write(svg)
			return err
		}
	}
	return fmt.Errorf("timeline: %q has too much for %d bytes: %d rows", p.Title, MaxBytes, len(p.Rows))
}

// flatRow is a row, and what is seen of its spans.
type flatRow struct {
	Row
	flat, below []Span
	clashes     []Span
}

// drawing is an SVG that is being written.
type drawing struct {
	*Picture
	end   time.Duration
	scale float64 // pixels for a second
	rows  []flatRow

	out bytes.Buffer
	resolution
	id string
	y  float64
}

func (d *drawing) put(format string, args ...any) { fmt.Fprintf(&d.out, format, args...) }

// draw returns the SVG.
func (d *drawing) draw(r resolution) []byte {
	d.out.Reset()
	d.resolution = r
	sum := fnv.New32a()
	fmt.Fprint(sum, d.Title, d.Verdict, d.end) // several pictures on one page need patterns of their own
	d.id = fmt.Sprintf("t%x", sum.Sum32())

	top := 58.0
	if d.Verdict == "" {
		top = 38
	}
	d.y = top
	heights := d.heights()
	bottom := top + heights
	height := bottom + 22 + d.legendHeight()
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" class="tl" role="img" `)
	d.put(`viewBox="0 0 %g %g" width="%g" height="%g">`+"\n", pageWidth, height, pageWidth, height)
	d.put("<title>%s</title>\n<desc>%s</desc>\n", escape(joinNonEmpty(": ", d.Title, d.Verdict)), escape(d.about()))
	d.put("<style>\n.tl{%s}\n@media(prefers-color-scheme:dark){.tl{%s}}\n%s</style>\n", light.variables(),
		dark.variables(), rules)
	d.patterns()
	d.put(`<rect class="back" x=".5" y=".5" width="%g" height="%g" rx="6"/>`+"\n", pageWidth-1, height-1)
	d.put(`<text class="t" x="14" y="26">%s</text>`+"\n", escape(d.Title))
	if d.Verdict != "" {
		class := "v"
		if len(d.clashes()) > 0 {
			class = "v bad"
		}
		d.put(`<text class="%s" x="14" y="46">%s</text>`+"\n", class, escape(d.Verdict))
	}
	d.bands(top, bottom)
	d.axis(top, bottom)
	for _, row := range d.rows {
		d.row(row)
	}
	d.legend(bottom + 22)
	d.put("</svg>\n")
	return d.out.Bytes()
}

// about describes the picture, and how exactly it was drawn.
func (d *drawing) about() string {
	exact := fmt.Sprintf("Spans of one state with less than %v between them are drawn as one.",
		time.Duration(d.gap/d.scale*float64(time.Second)).Round(time.Millisecond))
	return joinNonEmpty(" ", d.About, exact, d.Note)
}

func (d *drawing) patterns() {
	d.put("<defs>")
	for _, s := range d.used() {
		if l := looks[s]; l.pattern != "" {
			d.put(`<pattern id="%s%s" class="p%s" width="6" height="6" patternUnits="userSpaceOnUse">`+
				`<rect width="6" height="6"/>%s</pattern>`, d.id, l.class, l.class, l.pattern)
		}
	}
	d.put("</defs>\n")
}

// height returns the height of a row's parts: its heading, its marks' texts, its bar, the line below, and the gap.
func (r flatRow) height() (head, marks, below float64) {
	if r.Head != "" {
		head = 20
	}
	if slices.ContainsFunc(r.Marks, func(m Mark) bool { return m.Text != "" }) {
		marks = lineHeight
	}
	if len(r.Below) > 0 {
		below = lineHeight + 2
	}
	return head, marks, below
}

func (d *drawing) heights() (sum float64) {
	for _, row := range d.rows {
		head, marks, below := row.height()
		sum += head + marks + barHeight + below + rowGap
	}
	return sum
}

// bands marks the times of clashes in all rows.
func (d *drawing) bands(top, bottom float64) {
	for _, r := range d.merged(d.clashes()) {
		d.put(`<rect class="band" x="%s" y="%s" width="%s" height="%s"/>`+"\n", num(left+r.from), num(top),
			num(r.to-r.from), num(bottom-top))
	}
}

// merged returns clashes as they are drawn: each at least leastClash wide, and those that then overlap as one. In
// a picture of more than the finest resolution, those with less than gap between them are one, too.
func (d *drawing) merged(clashes []Span) []run {
	sorted := slices.Clone(clashes)
	slices.SortStableFunc(sorted, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	gap := d.gap
	if gap <= finest.gap {
		gap = 0
	}
	all := runs(sorted, Clash, d.scale, gap, leastClash)
	for i := range all { // at the very end of the picture
		all[i].from, all[i].to = min(all[i].from, plotWidth-leastClash), min(all[i].to, plotWidth)
	}
	return all
}

func (d *drawing) axis(top, bottom float64) {
	step := tick(d.end, 12)
	var lines strings.Builder
	for at := time.Duration(0); at <= d.end; at += step {
		x := left + at.Seconds()*d.scale
		fmt.Fprintf(&lines, "M%s %sV%s", num(x), num(top), num(bottom+3))
		d.put(`<text class="s d" x="%s" y="%s" text-anchor="middle">%g s</text>`+"\n", num(x), num(bottom+15),
			at.Seconds())
	}
	d.put(`<path class="grid" d="%s"/>`+"\n", &lines)
}

func (d *drawing) row(row flatRow) {
	head, marks, below := row.height()
	if head > 0 {
		d.put(`<text class="s h" x="14" y="%s">%s</text>`+"\n", num(d.y+13), escape(row.Head))
	}
	d.y += head
	bar := d.y + marks
	d.put(`<g><text x="14" y="%s">%s</text>`, num(bar+13), escape(cut(row.Label, 18)))
	if cut(row.Label, 18) != row.Label {
		d.put(`<title>%s</title>`, escape(row.Label))
	}
	d.put("</g>\n")
	d.lane(row.flat, bar, barHeight)
	d.clash(row.clashes, bar)
	d.lane(row.below, bar+barHeight+2, lineHeight)
	d.marks(row.Marks, bar)
	d.y = bar + barHeight + below + rowGap
}

// lane draws spans, the lesser states first.
func (d *drawing) lane(flat []Span, y, height float64) {
	for state := Up; state < Clash; state++ {
		top, high := y, height
		if state == Waits {
			top, high = y+height/2-2, 4
		}
		var shapes, rest strings.Builder
		for _, r := range runs(flat, state, d.scale, d.gap, 1) {
			shape := fmt.Sprintf("M%s %sh%sv%sh-%sz", num(left+r.from), num(top), num(r.to-r.from), num(high),
				num(r.to-r.from))
			if r.detail == "" || r.to-r.from < d.detailed {
				shapes.WriteString(shape)
			} else {
				fmt.Fprintf(&rest, `<path %s d="%s"><title>%s</title></path>`+"\n", d.fill(state), shape,
					escape(r.detail))
			}
			if text := r.text; text != "" && r.to-r.from >= textWidth(text) {
				fmt.Fprintf(&rest, `<text class="s t%s" x="%s" y="%s">%s</text>`+"\n", looks[state].class,
					num(left+r.from+4), num(y+height/2+4), escape(text))
			}
		}
		if shapes.Len() > 0 {
			d.put(`<path %s d="%s"/>`+"\n", d.fill(state), &shapes)
		}
		d.put("%s", &rest)
	}
}

// fill returns the attributes of a state's shapes.
func (d *drawing) fill(state State) string {
	l := looks[state]
	if l.pattern == "" {
		return fmt.Sprintf(`class="%s"`, l.class)
	}
	return fmt.Sprintf(`class="%s" fill="url(#%s%s)"`, l.class, d.id, l.class)
}

func (d *drawing) clash(clashes []Span, y float64) {
	for _, r := range d.merged(clashes) {
		d.put(`<rect %s x="%s" y="%s" width="%s" height="%g">`, d.fill(Clash), num(left+r.from), num(y),
			num(r.to-r.from), barHeight)
		if r.detail != "" {
			d.put("<title>%s</title>", escape(r.detail))
		}
		d.put("</rect>\n")
		if r.text != "" && r.to-r.from >= textWidth(r.text) {
			d.put(`<text class="s tcl" x="%s" y="%s">%s</text>`+"\n", num(left+r.from+4), num(y+barHeight/2+4),
				escape(r.text))
		}
	}
}

// marks draws a triangle and a line for each mark, and the texts that have room.
func (d *drawing) marks(marks []Mark, y float64) {
	if len(marks) == 0 {
		return
	}
	var shapes strings.Builder
	last := -pageWidth
	for _, m := range byTime(marks) {
		x := left + m.At.Seconds()*d.scale
		if x-last < d.gap {
			continue
		}
		last = x
		fmt.Fprintf(&shapes, "M%s %sv%gM%s %sh6l-3 4z", num(x), num(y), barHeight, num(x-3), num(y-4))
	}
	d.put(`<path class="mark" d="%s"/>`+"\n", &shapes)
	for _, l := range place(marks, d.scale, 260, plotWidth, textWidth) {
		d.put(`<text class="s" x="%s" y="%s">%s</text>`+"\n", num(left+l.at+5), num(y-4), escape(l.text))
	}
}

// legendItems returns the states of the legend, by line.
func (d *drawing) legendItems() (lines [][]State) {
	free := 0.0
	for _, s := range d.used() {
		need := 30 + textWidth(s.String())
		if len(lines) == 0 || free < need {
			lines, free = append(lines, nil), plotWidth
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], s)
		free -= need
	}
	return lines
}

func (d *drawing) legendHeight() float64 {
	height := 10 + 18*float64(len(d.legendItems()))
	if d.Note != "" {
		height += 16
	}
	return height
}

func (d *drawing) legend(y float64) {
	for _, line := range d.legendItems() {
		x := left
		for _, s := range line {
			top, high := y+3, 11.0
			if s == Waits {
				top, high = y+6.5, 4
			}
			d.put(`<rect %s x="%s" y="%s" width="20" height="%g"/>`, d.fill(s), num(x), num(top), high)
			d.put(`<text class="s d" x="%s" y="%s">%s</text>`+"\n", num(x+25), num(y+12.5), escape(s.String()))
			x += 30 + textWidth(s.String())
		}
		y += 18
	}
	if d.Note != "" {
		d.put(`<text class="s d" x="%g" y="%s">%s</text>`+"\n", left, num(y+12), escape(d.Note))
	}
}

// num returns a coordinate with one decimal at most.
func num(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

// escape returns a text for XML. A character that XML cannot have becomes a question mark.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0xfffe || r == 0xffff {
			return '?'
		}
		return r
	}, text))
}

// cut returns the first letters of a text that is longer.
func cut(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}

func joinNonEmpty(separator string, all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), separator)
}
