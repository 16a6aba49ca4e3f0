package gocronquorumlock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// ask is one request of a scheduler for a job's lock.
type ask struct {
	Process int
	Job     string
	Tick    int
	Late    time.Duration // after the tick, by the scheduler's clock
	Took    time.Duration
	Error   string `json:",omitempty"`
}

// run is one run of a job, in the order of the register that they were written to.
type run struct {
	Process int
	Job     string
	Tick    int
	Token   uint64
}

// stall is a time in which the machine, or a process, stood still: by the true clock, since the first tick.
type stall struct{ From, To time.Duration }

// verdict is what a judge says of a job's ticks.
type verdict struct {
	twice, missed int
	excused       int // of these, because a scheduler was later than the skew allows
	wrong         []string
}

// timing is what the schedulers were promised.
type timing struct {
	processes   int
	first, last int // ticks
	period      time.Duration
	lateness    time.Duration // how late a scheduler may ask, by its own clock
}

// judge compares a job's runs with its ticks. A tick is excused if a scheduler asked too late or not at all,
// at that tick or at the one before, whose lock then stays for longer; and where something stood still for as
// long within a period of the tick, at once or in sum. The machine was too busy there for the settings.
func (p timing) judge(asks []ask, runs []run, stalls []stall) (v verdict) {
	inTime := map[int]int{} // by tick, the schedulers that asked in time
	for _, a := range asks {
		if a.Late <= p.lateness {
			inTime[a.Tick]++
		}
	}
	inTime[p.first-1] = p.processes
	count := map[int]int{}
	var before run
	for _, r := range runs {
		count[r.Tick]++
		if r.Token <= before.Token || r.Tick < before.Tick {
			v.wrong = append(v.wrong, fmt.Sprintf("%+v after %+v", r, before))
		}
		before = r
	}
	for tick := p.first; tick <= p.last; tick++ {
		n := count[tick]
		if n == 1 {
			continue
		}
		v.twice, v.missed = v.twice+max(n-1, 0), v.missed+max(1-n, 0)
		if inTime[tick] < p.processes || inTime[tick-1] < p.processes || p.stoodStill(tick, stalls) {
			v.excused++
			continue
		}
		v.wrong = append(v.wrong, fmt.Sprintf("tick %d: %d runs", tick, n))
	}
	return v
}

// stoodStill reports whether there were stalls within a period of a tick: an ask takes several steps, each of
// which may meet one.
func (p timing) stoodStill(tick int, stalls []stall) bool {
	at, sum := time.Duration(tick-1)*p.period, time.Duration(0)
	for _, s := range stalls {
		if s.From < at+p.period && s.To > at-p.period {
			sum += s.To - s.From
		}
	}
	return sum > p.lateness
}

// The judge notices a run too many, a tick without one and a token that does not rise.
func TestJudge(t *testing.T) {
	const allowed = 10 * time.Millisecond
	promised := timing{processes: 2, first: 1, last: 3, period: 100 * time.Millisecond, lateness: allowed}
	asks := func(late ...time.Duration) (all []ask) { // of two processes in turn
		for i, l := range late {
			all = append(all, ask{Process: i % 2, Tick: 1 + i/2, Late: l})
		}
		return all
	}
	inTime := asks(0, 1, 2, 3, 4, allowed)
	ran := func(ticks ...int) (all []run) {
		for i, tick := range ticks {
			all = append(all, run{Tick: tick, Token: uint64(7 + i)})
		}
		return all
	}
	for what, test := range map[string]struct {
		asks    []ask
		runs    []run
		want    string // in what is wrong; "" for nothing
		excused int
	}{
		"once":                   {inTime, ran(1, 2, 3), "", 0},
		"twice":                  {inTime, ran(1, 1, 2, 3), "tick 1: 2 runs", 0},
		"missed":                 {inTime, ran(1, 3), "tick 2: 0 runs", 0},
		"an equal token":         {inTime, []run{{0, "j", 1, 7}, {1, "j", 2, 7}, {0, "j", 3, 9}}, "after", 0},
		"a tick after the next":  {inTime, ran(2, 1, 3), "after", 0},
		"asked late":             {asks(0, 0, 0, allowed+1, 0, 0), ran(1, 2, 2, 3), "", 1},
		"asked late before":      {asks(0, allowed+1, 0, 0, 0, 0), ran(1, 3), "", 1},
		"asked late long before": {asks(0, allowed+1, 0, 0, 0, 0), ran(1, 2), "tick 3: 0 runs", 0},
		"not asked":              {inTime[:5], ran(1, 2), "", 1},
		"asked late, and it ran": {asks(0, 0, 0, allowed+1, 0, 0), ran(1, 2, 3), "", 0},
	} {
		v := promised.judge(test.asks, test.runs, nil)
		noticed := slices.ContainsFunc(v.wrong, func(w string) bool { return strings.Contains(w, test.want) })
		if test.want == "" && len(v.wrong) > 0 || test.want != "" && !noticed || v.excused != test.excused {
			t.Errorf("%s: the judge says %+v, want %q and %d excused", what, v, test.want, test.excused)
		}
	}
	ms := func(from, to time.Duration) []stall { return []stall{{from * time.Millisecond, to * time.Millisecond}} }
	for _, test := range []struct {
		stalls  []stall
		excused int
	}{
		{ms(195, 206), 1}, {ms(195, 205), 0}, // longer than allowed, or not
		{ms(289, 300), 1}, {ms(300, 311), 0}, {ms(0, 101), 1}, {ms(0, 100), 0}, // within a period of 200 ms, or not
	} {
		v := promised.judge(inTime, ran(1, 2), test.stalls)
		if v.excused != test.excused || len(v.wrong) != 1-test.excused {
			t.Errorf("%v: the judge says %+v", test.stalls, v)
		}
	}
}
