package timeline

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
