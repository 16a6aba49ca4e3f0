package timeline

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
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
