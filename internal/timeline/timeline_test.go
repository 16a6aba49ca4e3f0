package timeline

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// outage is a picture with every kind of thing in it.
func outage() *Picture {
	return &Picture{Title: "a title", Verdict: "a verdict", About: "about it", Note: "a note", Rows: []Row{
		{Head: "masters", Label: "m1", Spans: []Span{{0, ms(1000), Up, "up", ""}, {ms(400), ms(600), Dead, "dead",
			"killed"}},
			Below: []Span{{ms(100), ms(500), CutOff, "from A", ""}, {ms(500), ms(800), Hindered, "", ""}},
			Marks: []Mark{{ms(400), "kill"}, {ms(600), "restart"}}},
		{Label: "m2", Spans: []Span{{0, ms(500), Quarantine, "", ""}, {ms(500), ms(1000), Frozen, "", ""}}},
		{Head: "clients", Label: "A", Spans: []Span{{0, ms(200), Waits, "", ""}, {ms(200), ms(700), Holds, "#1", ""}}},
		{Label: "B", Spans: []Span{{0, ms(600), Waits, "", ""}, {ms(600), ms(1000), Holds, "#2", ""}}},
	}}
}

// withClash is that picture with a clash in both clients' rows.
func withClash(from, to time.Duration) *Picture {
	p := outage()
	for _, i := range []int{2, 3} {
		p.Rows[i].Spans = append(p.Rows[i].Spans, Span{from, to, Clash, "both", "a detail"})
	}
	return p
}

func TestWhatCannotBeDrawnIsNamed(t *testing.T) {
	for want, p := range map[string]*Picture{
		`nothing to draw in "empty"`: {Title: "empty"},
		`row "m1": the span from 1s has the unknown state 99`: {
			Rows: []Row{{Label: "m1", Spans: []Span{{time.Second, time.Second, 99, "", ""}}}}},
		`row "m1": the span from 2s ends before, at 1s`: {
			Rows: []Row{{Label: "m1", Below: []Span{{2 * time.Second, time.Second, Up, "", ""}}}}},
		`row "m1": a span begins at -1s, before the picture`: {
			Rows: []Row{{Label: "m1", Spans: []Span{{-time.Second, time.Second, Up, "", ""}}}}},
		`row "m1": the mark "kill" is at -1s, before the picture`: {
			Rows: []Row{{Label: "m1", Marks: []Mark{{-time.Second, "kill"}}}}},
	} {
		var out bytes.Buffer
		for kind, err := range map[string]error{"svg": p.WriteSVG(&out), "text": p.Write(&out, 80, true)} {
			if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
				t.Errorf("%s: %v, want %q, and wrote %q", kind, err, want, out.String())
			}
		}
	}
}

// At every instant flatten shows the last span there, as a search for it finds it.
func TestFlattenShowsTheLastSpan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var spans []Span
		for range rng.IntN(8) {
			from := rng.IntN(20)
			spans = append(spans, Span{ms(from), ms(from + rng.IntN(10)), State(1 + rng.IntN(int(Clash))), "", ""})
		}
		flat := flatten(spans)
		for at := ms(0); at < ms(30); at += ms(1) {
			var want, got State
			for _, s := range spans {
				if s.State != Clash && s.From <= at && at < s.To {
					want = s.State
				}
			}
			shown := 0
			for _, s := range flat {
				if s.From <= at && at < s.To {
					got, shown = s.State, shown+1
				}
			}
			if got != want || shown > 1 {
				t.Fatalf("at %v %d pieces show %d, want %d: %v of %v", at, shown, got, want, flat, spans)
			}
		}
	}
}

func TestMarksTextsDoNotOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	width := func(text string) float64 { return 6 * float64(len(text)) }
	shown := 0
	for range 2000 {
		var marks []Mark
		for range rng.IntN(20) {
			marks = append(marks, Mark{ms(rng.IntN(1000)), []string{"", "kill", "a longer text"}[rng.IntN(3)]})
		}
		end := 0.0
		for _, l := range place(marks, 700, 200, 700, width) {
			if l.at < end || l.end > 700.001 || l.end-l.at < width(l.text)-0.001 || l.end-l.at > 200.001 {
				t.Fatalf("%+v after one that ends at %v, of %v", l, end, marks)
			}
			end = l.end
			shown++
		}
	}
	if shown < 2000 {
		t.Errorf("only %d texts are shown", shown)
	}
	one := place([]Mark{{ms(110), "restart"}, {ms(100), "kill"}}, 700, 200, 700, width)
	if len(one) != 1 || one[0].text != "kill, restart" || one[0].at != 70 {
		t.Errorf("two marks side by side are %+v", one)
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for length := ms(1); length < time.Hour; length += length/7 + 1 {
		for _, most := range []int{5, 12} {
			if step := tick(length, most); step < ms(100) || length/step >= time.Duration(most) {
				t.Errorf("%v in steps of %v", length, step)
			}
		}
	}
}

// Spans that are too small to be told apart are one; texts that can be read stay apart.
func TestRuns(t *testing.T) {
	flat := []Span{{0, ms(100), Up, "list 1", "a"}, {ms(100), ms(200), Up, "list 2", "b"}, {ms(200), ms(201), Up,
		"list 3", ""},
		{ms(201), ms(202), Dead, "", ""}, {ms(203), ms(204), Up, "", ""}, {ms(300), ms(301), Up, "x", ""}}
	got := runs(flat, Up, 1000, 5, 4)
	want := []run{{0, 100, Up, "list 1", "a"}, {100, 207, Up, "", ""}, {300, 304, Up, "x", ""}}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i, r := range got {
		if w := want[i]; r.text != w.text || r.detail != w.detail ||
			math.Abs(r.from-w.from)+math.Abs(r.to-w.to) > 0.001 {
			t.Errorf("got %+v, want %+v", r, w)
		}
	}
}
