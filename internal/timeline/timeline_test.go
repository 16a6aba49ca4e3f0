package timeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
