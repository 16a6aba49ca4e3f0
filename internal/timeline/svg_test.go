package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// element is a start tag of an SVG.
type element struct {
	name  string
	attrs map[string]string
}

func (e element) number(t *testing.T, name string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(e.attrs[name], 64)
	if err != nil {
		t.Fatalf("%s of %+v: %v", name, e, err)
	}
	return x
}

// drawn returns the SVG and its elements. It fails if the SVG is too long, no XML, or needs anything from elsewhere.
func drawn(t *testing.T, p *Picture) (svg string, all []element) {
	t.Helper()
	var out bytes.Buffer
	if err := p.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	svg = out.String()
	if len(svg) > MaxBytes {
		t.Errorf("%d bytes", len(svg))
	}
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%.2000s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			e := element{start.Name.Local, map[string]string{}}
			for _, a := range start.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			all = append(all, e)
			if e.name == "script" || e.name == "image" || e.name == "foreignObject" || e.attrs["href"] != "" {
				t.Errorf("the SVG has %+v", e)
			}
		}
	}
	if strings.Contains(svg, "@import") || strings.Contains(svg, "@font-face") || strings.Count(svg, "http") != 1 {
		t.Error("the SVG needs something from elsewhere")
	}
	return svg, all
}

// reds returns the clashes in rows, and the bands behind them.
func reds(all []element) (clashes, bands []element) {
	for _, e := range all {
		switch {
		case e.name == "rect" && e.attrs["class"] == "cl" && e.attrs["height"] == fmt.Sprint(barHeight):
			clashes = append(clashes, e)
		case e.attrs["class"] == "band":
			bands = append(bands, e)
		}
	}
	return clashes, bands
}

func TestSVGIsReadableInBothModesAndAloud(t *testing.T) {
	svg, all := drawn(t, outage())
	for _, want := range []string{"<title>a title: a verdict</title>", "<desc>about it",
		"prefers-color-scheme:dark", `role="img"`,
		">masters</text>", ">m1</text>", ">dead</text>", ">from A</text>", ">kill</text>", ">restart</text>",
		">#1</text>", ">0.5 s</text>",
		">a note</text>", "<title>killed</title>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the SVG lacks %q:\n%s", want, svg)
		}
	}
	for _, e := range all {
		if e.name == "text" && (e.number(t, "x") < 0 || e.number(t, "x") > pageWidth) {
			t.Errorf("outside of the picture: %+v", e)
		}
	}
}

func TestOnlyAClashIsRed(t *testing.T) {
	svg, all := drawn(t, outage())
	if clashes, bands := reds(all); len(clashes)+len(bands) > 0 || strings.Contains(svg, `class="v bad"`) ||
		strings.Contains(svg, `class="cl"`) {
		t.Errorf("red without a clash: %v %v", clashes, bands)
	}
	svg, all = drawn(t, withClash(ms(600), ms(700)))
	clashes, bands := reds(all)
	if len(clashes) != 2 || len(bands) != 1 || !strings.Contains(svg, `class="v bad"`) {
		t.Errorf("two clients clash once: %v, %v", clashes, bands)
	}
	for _, e := range append(clashes, bands...) {
		if x, w := e.number(t, "x"), e.number(t, "width"); x < left+0.59*plotWidth || x+w > left+0.71*plotWidth ||
			w < 0.09*plotWidth {
			t.Errorf("from 0.6 to 0.7 s of 1 s is drawn as %+v", e)
		}
	}
}

// crowded is a picture with far more spans than pixels.
func crowded() *Picture {
	p := outage()
	for r := range 12 {
		row := Row{Label: fmt.Sprintf("client %d", r)}
		for i := range 1500 {
			at := time.Duration(i) * ms(40)
			row.Spans = append(row.Spans, Span{at, at + ms(8), Waits, "", "a detail"}, Span{at + ms(8), at + ms(24),
				Holds, "#123", "a detail"})
			if i%10 == 0 {
				row.Marks = append(row.Marks, Mark{at, "a mark"})
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// A clash of no length at all, among 36,000 spans, is seen.
func TestAClashIsNeverTooSmallToSee(t *testing.T) {
	for _, span := range []Span{{0, 0, Clash, "", ""}, {0, 1, Clash, "", ""}, {ms(31_234), ms(31_234) + 1, Clash,
		"", ""},
		{ms(31_234), ms(31_235), Clash, "", ""}, {ms(59_984), ms(59_984), Clash, "", ""}} {
		p := crowded()
		row := &p.Rows[len(p.Rows)-1]
		row.Spans = append([]Span{span}, row.Spans...)
		_, all := drawn(t, p)
		clashes, bands := reds(all)
		if len(clashes) != 1 || len(bands) != 1 {
			t.Fatalf("%v: %v, %v", span, clashes, bands)
		}
		for _, e := range append(clashes, bands...) {
			x, w := e.number(t, "x"), e.number(t, "width")
			if w < leastClash || x < left || x+w > left+plotWidth+0.1 {
				t.Errorf("%v is drawn as %+v", span, e)
			}
		}
	}
}

// Holders that clash all the time, but for its middle third, each time for a moment: no clash is left out, and the
// middle isn't red.
func TestManyClashesAreDrawn(t *testing.T) {
	p := crowded()
	end, err := p.end()
	if err != nil {
		t.Fatal(err)
	}
	var clashes []Span
	for at := time.Duration(0); at < end; at += end / 220 {
		if at < end/3 || at > end*2/3 {
			clashes = append(clashes, Span{at, at + end/3300, Clash, "", "held by A and B, which is a long story"})
		}
	}
	for i := range p.Rows {
		p.Rows[i].Spans = append(p.Rows[i].Spans, clashes...)
	}
	_, all := drawn(t, p)
	bars, bands := reds(all)
	if len(bars) != len(bands)*len(p.Rows) {
		t.Fatalf("%d bands, and %d clashes in %d rows", len(bands), len(bars), len(p.Rows))
	}
	isRed := func(at time.Duration) bool {
		x := left + at.Seconds()*plotWidth/end.Seconds()
		return slices.ContainsFunc(bands, func(e element) bool {
			return e.number(t, "x") <= x+0.1 && x <= e.number(t, "x")+e.number(t, "width")
		})
	}
	for _, c := range clashes {
		if !isRed(c.From) {
			t.Errorf("no red at %v", c.From)
		}
	}
	if isRed(end / 2) {
		t.Errorf("red without a clash: %v", bands)
	}
}

// A clash that lasts from the begin to the end, and one in the last instant: no red is outside of the plot.
func TestClashesStayWithinThePlot(t *testing.T) {
	p := outage()
	end, err := p.end()
	if err != nil {
		t.Fatal(err)
	}
	p.Rows[0].Spans = append(p.Rows[0].Spans, Span{0, end - ms(1), Clash, "", ""}, Span{end - ms(2), end, Clash, "", ""})
	_, all := drawn(t, p)
	clashes, bands := reds(all)
	if len(clashes) != 1 || len(bands) != 1 {
		t.Errorf("one time is drawn as %v and %v", clashes, bands)
	}
	for _, e := range append(clashes, bands...) {
		if x, w := e.number(t, "x"), e.number(t, "width"); x != left || w != plotWidth {
			t.Errorf("the whole time is drawn as %+v", e)
		}
	}
}

// Clashes of three holders overlap: they are one, also in a picture that is drawn coarsely. Their texts would
// stand on each other.
func TestClashesThatOverlapAreOne(t *testing.T) {
	p := crowded()
	row := &p.Rows[len(p.Rows)-1]
	row.Spans = append(row.Spans, Span{ms(5000), ms(40_000), Clash, "A and B", ""}, Span{ms(20_000), ms(50_000), Clash,
		"B and C", ""})
	_, all := drawn(t, p)
	if clashes, bands := reds(all); len(clashes) != 1 || len(bands) != 1 {
		t.Errorf("%v, %v", clashes, bands)
	}
}

// The line below the bar is no place for a clash: it is drawn as one of the bar's.
func TestAClashBelowIsDrawn(t *testing.T) {
	p := outage()
	p.Rows[0].Below = append(p.Rows[0].Below, Span{ms(600), ms(700), Clash, "", ""})
	svg, all := drawn(t, p)
	if clashes, bands := reds(all); len(clashes) != 1 || len(bands) != 1 || !strings.Contains(svg, `class="v bad"`) {
		t.Errorf("%v, %v", clashes, bands)
	}
}

func TestTooMuchForAnSVGIsAnError(t *testing.T) {
	p := crowded()
	for range 1500 {
		p.Rows = append(p.Rows, Row{Label: "another one", Spans: []Span{{0, ms(100), Up, "up", ""}}})
	}
	var out bytes.Buffer
	if err := p.WriteSVG(&out); err == nil || !strings.Contains(err.Error(), "1516 rows") || out.Len() > 0 {
		t.Errorf("%v, and wrote %d bytes", err, out.Len())
	}
}

func TestTextsAreEscaped(t *testing.T) {
	p := withClash(ms(600), ms(700))
	const hostile = "<script>\"'&\x00\xff\u202e</text>"
	p.Title, p.Verdict, p.About, p.Note = hostile, hostile, hostile, hostile
	for i := range p.Rows {
		row := &p.Rows[i]
		row.Head, row.Label = hostile, hostile
		for k := range row.Spans {
			row.Spans[k].Text, row.Spans[k].Detail = hostile, hostile
		}
		for k := range row.Marks {
			row.Marks[k].Text = hostile
		}
	}
	drawn(t, p)
}

// Several pictures on one page must not use each other's patterns.
func TestPatternsBelongToOnePicture(t *testing.T) {
	id := func(p *Picture) string {
		_, all := drawn(t, p)
		for _, e := range all {
			if e.name == "pattern" {
				return e.attrs["id"]
			}
		}
		return ""
	}
	other := outage()
	other.Title = "another title"
	if a, b := id(outage()), id(other); a == b || a == "" {
		t.Errorf("patterns %q and %q", a, b)
	}
}
