package timeline

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A cell shows the greatest state of its time, and a hold only if it fills that.
func TestCells(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		width := 1 + rng.IntN(40)
		var spans []Span
		for range rng.IntN(8) {
			from := rng.IntN(100)
			spans = append(spans, Span{ms(from), ms(from + 1 + rng.IntN(30)), Up + State(rng.IntN(int(Clash))), "", 0})
		}
		c := &canvas{width, 1, 0, int64(ms(130))}
		want := make([]State, width)
		for ns := int64(0); ns < c.length; ns += int64(ms(1)) / 40 {
			k := c.place(time.Duration(ns))
			for _, s := range spans {
				if ns < int64(s.From) || ns >= int64(s.To) {
					continue
				}
				first, last := (c.length*int64(k)+int64(width)-1)/int64(width), c.length*int64(k+1)/int64(width)
				if s.State == Holds && (int64(s.From) > first || int64(s.To) < last) {
					s.State = partly
				}
				want[k] = max(want[k], s.State)
			}
		}
		if got := c.cells(spans); !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v of %v", got, want, spans)
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
	if svg := p.SVG(); len(svg) > 100_000 || strings.Contains(svg, `class="cl"`) {
		t.Errorf("%d bytes, or red: %s", len(svg), svg)
	}
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
				if one.at < end || one.at+c.room(one.text) > c.width || utf8.RuneCountInString(one.text) > 40 {
					t.Fatalf("%+v after one that ends at %v, of %v", one, end, marks)
				}
				end = one.at + c.room(one.text)
				shown++
			}
		}
	}
	if shown < 8000 {
		t.Errorf("only %d texts are shown", shown)
	}
	c := &canvas{100, 1, 0, int64(ms(1000))}
	if got := c.marks([]Mark{{ms(110), "restart"}, {ms(990), "lost"}, {ms(100), "kill"}}); len(got) != 2 ||
		got[0] != (text{10, "▾kill, restart", 0}) || got[1] != (text{95, "lost▾", 0}) {
		t.Errorf("two marks side by side, and one at the end: %+v", got)
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for length := ms(1); length < time.Hour; length += length/7 + 1 {
		texts := (&canvas{cells, 2, 0, int64(length)}).axis().texts
		for i, one := range texts {
			if i > 0 && one.at < texts[i-1].at+10 || i == 1 && !strings.Contains("1s 2s 5s", strings.Trim(one.text, "0.s")) {
				t.Fatalf("%v in %v", length, texts)
			}
		}
	}
}
