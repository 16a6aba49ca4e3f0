package timeline

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestText(t *testing.T) {
	const want = `a title
Never two holders of the lock
                     ▾kill  ▾restart
m1    ━ up ━━━━━━━━━━x dead x━━━━━━━━━━━━━━━
m1 A     x cut xxxxxxxxxx------------
m2    ~~~~~~~~~~~~~~~~~~~
A     ·······▒ #1 ██████████████▒
B     ···························▒ #2 ██████
      0s     0.2s    0.4s   0.6s    0.8s
      ━━ up   -- hindered   ~~ in quarantine
      xx down   ·· waits
      ▒▒ part of the time
      ██ holds the lock
      #1, #2, …: fencing tokens in order
`
	testkit.Equal(t, outage().Text(44, false), want, "the text")
}

func TestTextIsNoWiderThanAskedAndPlainWithoutColour(t *testing.T) {
	p := withClash(ms(600), ms(700))
	p.Title, p.Rows[0].Label = strings.Repeat("long ", 60), strings.Repeat("long ", 20)
	for width := -5; width < 250; width += 7 {
		plain, coloured := p.Text(width, false), p.Text(width, true)
		for line := range strings.Lines(plain) {
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			testkit.Check(t, n <= max(width, 40), "width %d: %d letters: %q", width, n, line)
		}
		if !strings.Contains(coloured, "\x1b[1;31m!") ||
			regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(coloured, "") != plain {
			t.Errorf("colours change more than colours:\n%s\n%s", plain, coloured)
		}
	}
}

// elements returns the SVG's elements, by class. It fails if the SVG is no XML, or needs anything from elsewhere.
func elements(t *testing.T, svg string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Require(t, err == nil, "%v\n%s", err, svg)
		start, _ := token.(xml.StartElement)
		attrs := map[string]string{}
		for _, a := range start.Attr {
			attrs[a.Name.Local] = a.Value
		}
		all[attrs["class"]] = append(all[attrs["class"]], attrs["d"])
		testkit.Check(t, !slices.Contains([]string{"script", "image", "foreignObject"}, start.Name.Local),
			"the SVG has a %s", start.Name.Local)
	}
	testkit.Check(t, !strings.Contains(svg, "@import") && !strings.Contains(svg, "@font-face") && strings.Count(svg, "http") == 1,
		"the SVG needs something from elsewhere")
	return all
}

func TestSVGHasAllOfAPicture(t *testing.T) {
	p := outage()
	p.Rows[2].Label, p.Rows[2].Spans[0].Text = "<script>", "\"'&"
	svg := p.SVG()
	large := regexp.MustCompile(`class="([a-z]+ )*t( |")`).FindAllString(svg, -1)
	testkit.Check(t, len(elements(t, svg)) > 0 && len(large) == 1, "as large as the title: %q", large)
	for _, want := range []string{"<title>a title: Never two holders of the lock</title>", `role="img"`, ">m1</text>",
		"> dead </text>", ">▾kill</text>", "> #2 </text>", ">0.5s</text>", ">in quarantine</text>", ">&lt;script&gt;</text>"} {
		testkit.Check(t, strings.Contains(svg, want), "the SVG lacks %q:\n%s", want, svg)
	}
}

func TestOnlyAClashIsRed(t *testing.T) {
	all := elements(t, outage().SVG())
	testkit.Check(t, len(all["cl"])+len(all["v bad"]) == 0, "red without a clash: %v", all)
	all = elements(t, withClash(ms(600), ms(700)).SVG())
	if len(all["cl"]) != 4 || len(all["v bad"]) != 1 { // the band, two rows, the legend
		t.Fatalf("two clients clash once: %v", all)
	}
	for _, shape := range all["cl"][:3] {
		var x, y, wide int
		if _, err := fmt.Sscanf(shape, "M%d %dh%d", &x, &y, &wide); err != nil || strings.Count(shape, "M") != 1 ||
			x < left+cells*cell*6/10-cell || x+wide > left+cells*cell*7/10+cell || wide < cells*cell/10 {
			t.Errorf("from 0.6 to 0.7 s of 1 s is drawn as %s", shape)
		}
	}
}

// A renderer that knows no variables of CSS (librsvg) draws the colours of light mode, and no black box.
func TestEachColourStandsBeforeItsVariable(t *testing.T) {
	colours, uses := map[string]string{}, 0
	for _, c := range regexp.MustCompile(`--(\w+):(#\w+)`).FindAllStringSubmatch(strings.Split(style, "@media")[0], -1) {
		colours[c[1]] = c[2]
	}
	for _, use := range regexp.MustCompile(`(.{0,15})\b(fill|stroke)(:|=")var\(--(\w+)\)`).FindAllStringSubmatch(style, -1) {
		uses++
		testkit.Check(t, strings.HasSuffix(use[1], use[2]+":"+colours[use[4]]+";"), "no colour before %s", use[0])
	}
	testkit.Check(t, uses > 20 && strings.Count(style, "var(") == uses, "%d uses of variables: does the test find them?", uses)
}

// Without colours each state has a letter, and a shape, of its own.
func TestStatesDifferWithoutColours(t *testing.T) {
	seen := map[string]State{}
	for s := Up; s <= Clash; s++ {
		shape := regexp.MustCompile(`id="tl-` + looks[s].class + `".* d="([^"]*)"`).FindString(style)
		_, shape, _ = strings.Cut(shape, " d=")
		if shape == "" {
			shape = regexp.MustCompile(`\.tl \.` + looks[s].class + `\{fill:#.*?\}`).FindString(style)
		}
		for _, key := range []string{"shape " + shape, "letter " + looks[s].glyph, "word " + looks[s].word} {
			other, taken := seen[key]
			testkit.Check(t, !taken && !strings.HasSuffix(key, " "), "%v and %v share the %s", other, s, key)
			seen[key] = s
		}
	}
}

// A clash of no length at all, among 7,200 spans, is seen, and nothing else is red.
func TestNoClashIsTooShortToSee(t *testing.T) {
	p := Picture{Rows: make([]Row, 12)}
	for i := range 12 * 300 {
		at, row := ms(i/12*40), &p.Rows[i%12]
		row.Spans = append(row.Spans, Span{at, at + ms(8), Waits, "", 0}, Span{at + ms(8), at + ms(24), Holds, "", 123})
	}
	svg := p.SVG()
	testkit.Check(t, len(svg) <= 100_000 && !strings.Contains(svg, `class="cl"`), "%d bytes, or red: %s", len(svg), svg)
	first := p.Rows[0].Spans
	for _, at := range []int{0, 6234, 11_984} {
		p.Rows[0].Spans = append(slices.Clone(first), Span{ms(at), ms(at), Clash, "", 0})
		if n := strings.Count(p.SVG(), `class="cl"`); n != 3 || strings.Count(p.Text(80, false), "!") != 3 { // with the band and the legend
			t.Errorf("at %v: %d red shapes\n%s", ms(at), n, p.Text(80, false))
		}
	}
}

func TestTextsDoNotOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	shown := 0
	for range 2000 {
		var marks []Mark
		var spans []Span
		for range rng.IntN(20) {
			at := ms(rng.IntN(1000))
			marks = append(marks, Mark{at, []string{"kill", "a longer text"}[rng.IntN(2)]})
			spans = append(spans, Span{at, Open, Down, "dead", 0})
		}
		c := &canvas{100, 1 + rng.IntN(2), 0, int64(ms(1000))}
		for _, texts := range [][]text{c.marks(marks), c.within(spans, c.cells(spans), nil)} {
			slices.SortFunc(texts, func(a, b text) int { return a.at - b.at })
			end := 0
			for _, one := range texts {
				testkit.Require(t, one.at >= end && one.at+c.room(one.text) <= c.width && utf8.RuneCountInString(one.text) <= 40,
					"%+v after one that ends at %v, of %v", one, end, marks)
				end = one.at + c.room(one.text)
				shown++
			}
		}
	}
	testkit.Check(t, shown >= 8000, "only %d texts are shown", shown)
	c := &canvas{100, 1, 0, int64(ms(1000))}
	got := c.marks([]Mark{{ms(110), "restart"}, {ms(990), "lost"}, {ms(100), "kill"}})
	testkit.Check(t, slices.Equal(got, []text{{10, "▾kill, restart", 0}, {95, "lost▾", 0}}),
		"two marks side by side, and one at the end: %+v", got)
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// outage is a picture with every state but a clash in it. Its clock does not begin at 0.
func outage() *Picture {
	p := &Picture{Title: "a title", Rows: []Row{
		{"m1", []Span{{0, Open, Up, "up", 0}, {ms(400), ms(600), Down, "dead", 0}}, []Mark{{ms(600), "restart"}, {ms(400), "kill"}}},
		{"m1 A", []Span{{ms(100), ms(500), Down, "cut", 0}, {ms(500), ms(800), Hindered, "", 0}}, nil},
		{"m2", []Span{{0, ms(500), Quarantine, "", 0}}, nil},
		{"A", []Span{{0, ms(200), Waits, "", 0}, {ms(200), ms(710), Holds, "", 1004}}, nil},
		{"B", []Span{{0, ms(720), Waits, "", 0}, {ms(720), ms(1000), Holds, "", 1009}}, nil},
	}}
	for _, row := range p.Rows {
		for i := range row.Spans {
			row.Spans[i].From += time.Hour
			if row.Spans[i].To != Open {
				row.Spans[i].To += time.Hour
			}
		}
		for i := range row.Marks {
			row.Marks[i].At += time.Hour
		}
	}
	return p
}

// withClash is that picture with a clash in both clients' rows.
func withClash(from, to time.Duration) *Picture {
	p := outage()
	for _, i := range []int{3, 4} {
		p.Rows[i].Spans = append(p.Rows[i].Spans, Span{time.Hour + from, time.Hour + to, Clash, "", 0})
	}
	return p
}

func TestVerdict(t *testing.T) {
	three := withClash(ms(600), ms(700))
	three.Rows[0].Spans = append(three.Rows[0].Spans, Span{time.Hour + ms(650), time.Hour + ms(750), Clash, "", 0},
		Span{time.Hour + ms(900), Open, Clash, "", 0})
	for want, p := range map[string]*Picture{
		"Never two holders of the lock":      outage(),
		"Two holders of the lock, for 100ms": withClash(ms(600), ms(700)),
		"Two holders of the lock, for 250ms": three,
		"Two holders of the lock, for 0s":    withClash(0, 0),
	} {
		testkit.Equal(t, p.Verdict(), want, "the verdict")
	}
}

func TestRecorder(t *testing.T) {
	at := time.Duration(10)
	r := &Recorder{Now: func() time.Duration { at++; return at }}
	r.Mark("m 1", "kill")                                // 11
	r.Add("m 1", Span{State: Down, Text: "dead"})        // 12
	r.Add("m 1", Span{State: Hindered, Text: "full"})    // 13
	r.End("m 1", "dead")                                 // 14
	r.End("m 1", "frozen")                               // it was not
	r.Add("m 1 A", Span{From: 5, To: 9, State: Down})    // 15
	r.Add("m 1 A", Span{State: Hindered, Text: "slow"})  // 16
	r.Add("m 1 A", Span{State: Hindered, Text: "loses"}) // 17
	r.End("m 1 A", "")                                   // 18 and 19
	r.End("m 1 B", "")                                   // nothing went on
	r.Mark("m 10", "another one's")
	want := fmt.Sprint([]Row{
		{"m 1", []Span{{12, 14, Down, "dead", 0}, {13, Open, Hindered, "full", 0}}, []Mark{{11, "kill"}}},
		{"m 1 A", []Span{{5, 9, Down, "", 0}, {16, 18, Hindered, "slow", 0}, {17, 19, Hindered, "loses", 0}}, nil}})
	testkit.Equal(t, fmt.Sprint(r.Rows("m 1")), want, "the rows")
}
