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

// verdict is what a judge says of a job's ticks.
type verdict struct {
	twice, missed int
	excused       int // of these, at ticks for which a scheduler asked too late
	wrong         []string
}

// judge compares a job's runs with its ticks, from the first to the last. A tick is excused where a scheduler
// asked later than allowed, waited for longer than that and the wait, or did not ask: at that tick, or at the
// one before, whose lock then stays for longer. The machine was too busy there for the settings.
func judge(asks []ask, runs []run, processes, first, last int, allowed, wait time.Duration) (v verdict) {
	inTime := map[int]int{} // by tick, the schedulers that asked in time
	for _, a := range asks {
		if a.Late <= allowed && a.Late+a.Took <= allowed+wait {
			inTime[a.Tick]++
		}
	}
	inTime[first-1] = processes
	count := map[int]int{}
	var before run
	for _, r := range runs {
		count[r.Tick]++
		if r.Token <= before.Token || r.Tick < before.Tick {
			v.wrong = append(v.wrong, fmt.Sprintf("%+v after %+v", r, before))
		}
		before = r
	}
	for tick := first; tick <= last; tick++ {
		n := count[tick]
		if n == 1 {
			continue
		}
		v.twice, v.missed = v.twice+max(n-1, 0), v.missed+max(1-n, 0)
		if inTime[tick] < processes || inTime[tick-1] < processes {
			v.excused++
			continue
		}
		v.wrong = append(v.wrong, fmt.Sprintf("tick %d: %d runs", tick, n))
	}
	return v
}

// The judge notices a run too many, a tick without one and a token that does not rise.
func TestJudge(t *testing.T) {
	const allowed, wait = 10 * time.Millisecond, 5 * time.Millisecond
	asks := func(late ...time.Duration) (all []ask) { // of two processes in turn
		for i, l := range late {
			all = append(all, ask{Process: i % 2, Tick: 1 + i/2, Late: l})
		}
		return all
	}
	inTime := asks(0, 1, 2, 3, 4, allowed)
	waited := func(d time.Duration) []ask { // at the last tick
		return append(slices.Clone(inTime[:5]), ask{Process: 1, Tick: 3, Late: allowed, Took: d})
	}
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
		"once":                     {inTime, ran(1, 2, 3), "", 0},
		"twice":                    {inTime, ran(1, 1, 2, 3), "tick 1: 2 runs", 0},
		"missed":                   {inTime, ran(1, 3), "tick 2: 0 runs", 0},
		"an equal token":           {inTime, []run{{0, "j", 1, 7}, {1, "j", 2, 7}, {0, "j", 3, 9}}, "after", 0},
		"a tick after the next":    {inTime, ran(2, 1, 3), "after", 0},
		"asked late":               {asks(0, 0, 0, allowed+1, 0, 0), ran(1, 2, 2, 3), "", 1},
		"asked late before":        {asks(0, allowed+1, 0, 0, 0, 0), ran(1, 3), "", 1},
		"asked late long before":   {asks(0, allowed+1, 0, 0, 0, 0), ran(1, 2), "tick 3: 0 runs", 0},
		"not asked":                {inTime[:5], ran(1, 2), "", 1},
		"waited too long":          {waited(wait + 1), ran(1, 2), "", 1},
		"waited as long as it may": {waited(wait), ran(1, 2), "tick 3: 0 runs", 0},
		"asked late, and it ran":   {asks(0, 0, 0, allowed+1, 0, 0), ran(1, 2, 3), "", 0},
	} {
		v := judge(test.asks, test.runs, 2, 1, 3, allowed, wait)
		noticed := slices.ContainsFunc(v.wrong, func(w string) bool { return strings.Contains(w, test.want) })
		if test.want == "" && len(v.wrong) > 0 || test.want != "" && !noticed || v.excused != test.excused {
			t.Errorf("%s: the judge says %+v, want %q and %d excused", what, v, test.want, test.excused)
		}
	}
}
