package gocronquorumlock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

var (
	ticksFlag  = flag.Int("ticks", 120, "the number of ticks of the long tests")
	periodFlag = flag.Duration("period", 200*time.Millisecond,
		"the period of TestTwoProcesses; a busy machine wants a longer one")
)

// Two processes, whose clocks differ, run each of three jobs once per tick, while one master after the other
// is killed and restarts empty. Without the min hold they run jobs twice.
func TestTwoProcesses(t *testing.T) {
	skew, ahead := *periodFlag/5, *periodFlag/10
	settings, err := newSettings(*periodFlag, skew, nil)
	must(t, err)
	for what, test := range map[string]struct {
		ticks    int
		maxLease time.Duration
		bare     bool
	}{
		"the Locker": {*ticksFlag, settings.minHold.Round(time.Millisecond) + 10*time.Millisecond, false},
		// Its runs take as long as the machine lets them: neither the lease nor the timeout is to end one.
		"without a min hold": {30, time.Second, true},
	} {
		t.Run(what, func(t *testing.T) {
			fleet, err := redistest.StartReal(4)
			if errors.Is(err, redistest.ErrNoServer) {
				t.Skipf("SKIPPED, needs real servers: %v", err)
			}
			must(t, err)
			t.Cleanup(func() { must(t, fleet.Stop()) })
			masters, register := fleet.Masters[:3], fleet.Masters[3]
			p := plan{
				URLs: fleet.URLs()[:3], Register: register.Addr(), Jobs: []string{"report", "invoices", "cleanup"},
				MaxLease: test.maxLease, Start: time.Now().Add(2 * time.Second),
				Ticks: test.ticks, Period: *periodFlag, Skew: skew, Bare: test.bare,
			}
			stop := make(chan struct{})
			killed := make(chan int)
			go func() { killed <- killInTurn(t, masters, p, stop) }()
			asks, stalls := playAll(t, p.withClock(1, 0), p.withClock(2, ahead))
			close(stop)
			deaths := <-killed

			var all verdict
			for _, job := range p.Jobs {
				ofJob := slices.DeleteFunc(slices.Clone(asks), func(a ask) bool { return a.Job != job })
				promised := timing{2, 1, p.Ticks, p.Period, skew - ahead}
				v := promised.judge(ofJob, runsOf(t, register, job), stalls)
				all.twice, all.missed, all.excused = all.twice+v.twice, all.missed+v.missed, all.excused+v.excused
				all.wrong = append(all.wrong, v.wrong...)
			}
			report(t, p, asks, stalls, all, deaths)
			if deaths < p.Ticks/30 {
				t.Errorf("only %d masters died", deaths)
			}
			if test.bare {
				if all.twice < p.Ticks/3 { // a third of the ticks, of three jobs: on an idle machine all
					t.Errorf("%d runs too many: this control should show more", all.twice)
				}
				return
			}
			if all.excused > p.Ticks*len(p.Jobs)/20 {
				t.Skipf("SKIPPED, this machine is too busy: at %d wrong ticks it was later than the skew allows", all.excused)
			}
			for _, w := range all.wrong {
				t.Error(w)
			}
		})
	}
}

func (p plan) withClock(process int, ahead time.Duration) plan {
	p.Process, p.Ahead = process, ahead
	return p
}

// playAll runs a process for each plan, and returns what they asked, and when they, or this process, stood still.
func playAll(t *testing.T, plans ...plan) (asks []ask, stalls []stall) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	var mu sync.Mutex
	noted := func(s stall) {
		mu.Lock()
		defer mu.Unlock()
		stalls = append(stalls, s)
	}
	watching, stop := context.WithCancel(t.Context())
	var watched, playing sync.WaitGroup
	watched.Go(func() { plans[0].watch(watching, noted) })
	for _, p := range plans {
		text, err := json.Marshal(p)
		must(t, err)
		process := exec.CommandContext(t.Context(), self)
		process.Env = append(os.Environ(), planVariable+"="+string(text))
		process.Stderr = os.Stderr
		_, err = process.StdinPipe() // its end, with this process at the latest, ends the scheduler
		must(t, err)
		out, err := process.StdoutPipe()
		must(t, err)
		must(t, process.Start())
		playing.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var what said
				err := json.Unmarshal(lines.Bytes(), &what)
				switch {
				case err != nil:
					t.Errorf("process %d says %q: %v", p.Process, lines.Text(), err)
				case what.Stall != nil:
					noted(*what.Stall)
				default:
					mu.Lock()
					asks = append(asks, *what.Ask)
					mu.Unlock()
				}
			}
			if err := process.Wait(); err != nil {
				t.Errorf("process %d: %v", p.Process, err)
			}
		})
	}
	playing.Wait()
	stop()
	watched.Wait()
	return asks, stalls
}

// killInTurn kills one master after the other, from the second tick on, and starts each again. It waits until a
// master has granted a lock again before it kills the next one. It returns how many died.
func killInTurn(t *testing.T, masters []*redistest.Master, p plan, stop <-chan struct{}) (deaths int) {
	pause := func(d time.Duration) (goesOn bool) {
		select {
		case <-stop:
			return false
		case <-time.After(d):
			return true
		}
	}
	for goesOn := pause(time.Until(p.Start.Add(p.Period))); goesOn; deaths++ {
		m := masters[deaths%len(masters)]
		if err := m.Kill(); err != nil {
			t.Error(err)
			return deaths
		}
		goesOn = pause(time.Duration(1+deaths%4) * p.Period / 2)
		if err := m.Start(); err != nil {
			t.Error(err)
			return deaths
		}
		for has := false; !has && goesOn; has, _ = redis.Bool(m.Do("EXISTS", p.Jobs[0])) {
			goesOn = pause(p.Period / 20)
		}
		goesOn = goesOn && pause(time.Duration(deaths%3)*p.Period/2)
	}
	return deaths
}

// runsOf reads a job's runs, in the order in which they were written down.
func runsOf(t *testing.T, register *redistest.Master, job string) []run {
	t.Helper()
	texts, err := redis.ByteSlices(register.Do("LRANGE", job+":runs", 0, -1))
	must(t, err)
	runs := make([]run, len(texts))
	for i, text := range texts {
		must(t, json.Unmarshal(text, &runs[i]))
	}
	return runs
}

// report logs the figures of a test.
func report(t *testing.T, p plan, asks []ask, stalls []stall, v verdict, deaths int) {
	t.Helper()
	var late []time.Duration
	shares := map[int]int{}
	for _, a := range asks {
		late = append(late, a.Late)
		if a.Error == "" {
			shares[a.Process]++
		}
	}
	slices.Sort(late)
	longest := time.Duration(0)
	for _, s := range stalls {
		longest = max(longest, s.To-s.From)
	}
	at := func(part int) time.Duration { return late[(len(late)-1)*part/1000].Round(10 * time.Microsecond) }
	t.Logf("%d jobs, %d ticks of %v, clocks %v apart, %d masters died: %d runs too many, %d ticks without (%d excused); "+
		"locks by process %v; asked late by %v (p50), %v (p99), %v (p99.9), %v at most; stood still for %v at most",
		len(p.Jobs), p.Ticks, p.Period, p.Period/10, deaths, v.twice, v.missed, v.excused, shares,
		at(500), at(990), at(999), at(1000), longest.Round(time.Millisecond/10))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
