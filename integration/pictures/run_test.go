package pictures

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

const ms = int64(time.Millisecond)

// hold is a client's hold of a name, in milliseconds.
func hold(client int, name string, from, to int64) []history.Event {
	acquired := history.Event{Client: client, Name: name, Owner: fmt.Sprintf("%d at %d", client, from), Level: 1,
		Kind:  history.Acquired,
		Token: uint64(1_000_000 + from), Call: (from - 5) * ms, Return: from * ms, Deadline: 1e6 * ms}
	released := acquired
	released.Kind, released.Call, released.Return = history.Released, to*ms, (to+5)*ms
	return []history.Event{acquired, released}
}

// runOf returns a run with two masters and two clients; the second one's hold begins at an instant, in milliseconds.
func runOf(second int64) Run {
	up := Span{To: Open, State: timeline.Up, Text: "up"}
	return Run{Title: "made up", Name: "k", Tokens: true,
		Masters: []Track{
			{Label: "master 1", Spans: []Span{up, {From: 100 * ms, To: 200 * ms, State: timeline.Dead,
				Text: "dead"}}, Marks: []Mark{{100 * ms, "kill"}}},
			{Label: "master 2", Spans: []Span{up}, Below: []Span{{From: 150 * ms, To: Open, State: timeline.CutOff,
				Text: "cut off from A"}}}},
		Clients: []Track{
			{Label: "client 1 (A)", Client: 1},
			{Label: "client 2", Client: 2, Spans: []Span{{From: 50 * ms, To: second * ms, State: timeline.Waits}}}},
		Events: append(hold(1, "k", 0, 400), hold(2, "k", second, 900)...)}
}

// red returns the clashes in the rows of a picture.
func red(p *timeline.Picture) (all []timeline.Span) {
	for _, row := range p.Rows {
		for _, s := range row.Spans {
			if s.State == timeline.Clash {
				all = append(all, s)
			}
		}
	}
	return all
}

func TestTwoHoldersAreRed(t *testing.T) {
	p := Of(runOf(300))
	clashes := red(p)
	if len(clashes) != 2 || p.Verdict != "Two holders of the lock, for 100ms" || !strings.Contains(p.About, p.Verdict) {
		t.Fatalf("%q, %q: %+v", p.Verdict, p.About, clashes)
	}
	for i, s := range clashes {
		if s.From != 300*time.Millisecond || s.To != 400*time.Millisecond || s.Text != fmt.Sprintf("#%d", i+1) ||
			s.Detail != "client 1 holds k with token 1000000 from 0s to 400ms (released), and "+
				"client 2 holds k with token 1000300 from 300ms to 900ms (released)" {
			t.Errorf("%+v", s)
		}
	}
	if p := Of(runOf(500)); len(red(p)) > 0 || p.Verdict != "Never two holders of the lock" {
		t.Errorf("%q: %+v", p.Verdict, red(p))
	}
}

// Whatever the history, there is red if and only if Check finds two holders, and as much as there were.
func TestRedIsWhatIsJudged(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var bad, good int
	for range 400 {
		r := Run{Name: "k", Clients: []Track{{Client: 1}, {Client: 2}, {Client: 3}}}
		type span struct{ from, to int64 }
		var holds []span
		for client := 1; client <= 3; client++ {
			from := rng.Int64N(30)
			of := span{from, from + 1 + rng.Int64N(15)}
			holds = append(holds, of)
			r.Events = append(r.Events, hold(client, "k", of.from, of.to)...)
		}
		judged := false
		for _, v := range history.Check(r.Events, history.Options{HonestClocks: true}) {
			judged = judged || v.Rule == "overlap"
		}
		var both, shown time.Duration
		p, begin := Of(r), min(holds[0].from, holds[1].from, holds[2].from)
		for at := range int64(50) {
			holders, isRed := 0, false
			for _, of := range holds {
				if of.from <= at && at < of.to {
					holders++
				}
			}
			if holders > 1 {
				both += time.Millisecond
			}
			for _, s := range red(p) {
				since := time.Duration((at - begin) * ms)
				isRed = isRed || s.From <= since && since < s.To
			}
			if isRed {
				shown += time.Millisecond
			}
			if isRed != (holders > 1) {
				t.Fatalf("at %d ms %d hold, red: %v; %v", at, holders, isRed, holds)
			}
		}
		if judged != (len(red(p)) > 0) || judged == strings.HasPrefix(p.Verdict, "Never") || judged &&
			!strings.Contains(p.Verdict, "for "+both.String()) {
			t.Fatalf("judged %v, red %v for %v of %v, %q", judged, red(p), shown, both, p.Verdict)
		}
		if judged {
			bad++
		} else {
			good++
		}
	}
	if bad < 20 || good < 20 {
		t.Errorf("%d histories with two holders, %d without", bad, good)
	}
}

func TestMoreHoldersThanSlotsAreRed(t *testing.T) {
	r := Run{Name: "s", Slots: 2, Clients: []Track{{Client: 1}, {Client: 2}, {Client: 3}}}
	r.Events = append(hold(1, "s slot 0", 0, 100), hold(2, "s slot 1", 50, 150)...)
	if p := Of(r); len(red(p)) > 0 || p.Verdict != "Never more than 2 holders" || p.Rows[1].Spans[0].Text != "slot 1" {
		t.Errorf("%q: %+v, %+v", p.Verdict, red(p), p.Rows[1])
	}
	r.Events = append(r.Events, hold(3, "s slot 2", 90, 150)...)
	if p := Of(r); len(red(p)) != 3 || p.Verdict != "More than 2 holders, for 10ms" {
		t.Errorf("%q: %+v", p.Verdict, red(p))
	}
	r.Events = append(r.Events, hold(3, "s slot 1", 120, 140)...) // a slot has two holders
	if p := Of(r); p.Verdict != "More than 2 holders: 2 times, for 30ms in all" {
		t.Errorf("%q: %+v", p.Verdict, red(p))
	}
}

// A hold without a known end lasts until the end of the picture.
func TestAHoldWithoutAnEnd(t *testing.T) {
	r := runOf(500)
	r.Events = r.Events[:3] // the second client's acquire is the last
	r.Events[2].Deadline = 0
	r.Clients[0].Marks = []Mark{{700 * ms, "lost"}}
	p := Of(r)
	last := p.Rows[3].Spans[len(p.Rows[3].Spans)-1]
	if last.State != timeline.Holds || last.To != 700*time.Millisecond || !strings.HasSuffix(last.Detail,
		"from 500ms without a known end") {
		t.Errorf("%+v", last)
	}
	if below := p.Rows[1].Below[0]; below.To != 700*time.Millisecond || p.Rows[0].Head != "masters" ||
		p.Rows[2].Head != "clients" {
		t.Errorf("%+v", p.Rows)
	}
}
