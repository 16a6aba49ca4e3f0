package gocronquorumlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/jonboulle/clockwork"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// planVariable has the plan of a process that is to be a scheduler instead of testing, as JSON.
const planVariable = "QUORUMLOCK_TEST_SCHEDULER"

// The timing of the processes. A machine that is later than the skew allows excuses a tick.
const (
	ticks    = 20
	period   = time.Second
	skew     = period / 5
	ahead    = period / 10            // the clock of the second process
	maxLease = 350 * time.Millisecond // the min hold, a third of the period, and some
)

var jobs = []string{"report", "invoices", "cleanup"}

// plan is what a scheduler's process does.
type plan struct {
	URLs     []string  // of the masters
	Register string    // the address of the server that the runs are written to
	Start    time.Time // the first tick, whose number is 1
	Ahead    time.Duration
}

// ask is one request of a scheduler for a job's lock; run is one run of a job, in the order of the register.
type (
	ask struct {
		Job        string
		Tick       int
		Late, Took time.Duration // after the tick, by the scheduler's clock
	}
	run struct {
		Tick  int
		Token uint64
	}
)

// schedulerProcess plays the plan, and writes each ask as a line. It returns the exit code.
func schedulerProcess(text string) int {
	s := &scheduler{lines: json.NewEncoder(os.Stdout), ticks: map[string]int{}}
	err := json.Unmarshal([]byte(text), &s.plan)
	if err == nil {
		err = s.play()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		return 1
	}
	return 0
}

// scheduler is a process, and its gocron.Locker, which reports what it is asked.
type scheduler struct {
	plan
	by    *Locker
	mu    sync.Mutex
	lines *json.Encoder
	ticks map[string]int // at which a job's lock was asked for last
}

func (s *scheduler) play() error {
	locker, err := redlock.Open(s.URLs, quorum.WithNodeOptions(node.WithTimeout(maxLease), node.WithMaxLease(maxLease)))
	if err != nil {
		return err
	}
	defer locker.Close()
	if s.by, err = New(locker, period, skew); err != nil {
		return err
	}
	g, err := gocron.NewScheduler(gocron.WithClock(offsetClock{Clock: clockwork.NewRealClock(), ahead: s.Ahead}),
		gocron.WithDistributedLocker(s))
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if _, err := g.NewJob(gocron.DurationJob(period), gocron.NewTask(func(ctx context.Context) { s.run(ctx, job) }),
			gocron.WithName(job), gocron.WithStartAt(gocron.WithStartDateTime(s.Start))); err != nil {
			return err
		}
	}
	g.Start()
	over := make(chan struct{})
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin) // the test has ended
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(time.Until(s.Start.Add(ticks*period - period/4))):
	}
	return g.Shutdown()
}

func (s *scheduler) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	since := time.Since(s.Start) + s.Ahead
	tick := int((since + period/10) / period) // a timer may be a little early by this clock
	s.mu.Lock()
	s.ticks[job] = 1 + tick
	s.mu.Unlock()
	began := time.Now()
	held, err := s.by.Lock(ctx, job)
	s.mu.Lock()
	defer s.mu.Unlock()
	return held, errors.Join(err, s.lines.Encode(ask{job, 1 + tick, since - time.Duration(tick)*period, time.Since(began)}))
}

// run writes down that the job runs, with its token.
func (s *scheduler) run(ctx context.Context, job string) {
	lock, ok := s.by.Held(job)
	if !ok {
		fmt.Fprintln(os.Stderr, "scheduler:", job, "runs without a lock")
		return
	}
	s.mu.Lock()
	text, _ := json.Marshal(run{s.ticks[job], lock.Token()})
	s.mu.Unlock()
	conn, err := redis.DialContext(ctx, "tcp", s.Register)
	if err == nil {
		defer conn.Close()
		_, err = fence.StampKey(ctx, conn, job+":token", lock.Token(), fence.Command{Name: "RPUSH", Args: []any{job + ":runs", text}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", job, "was not written down:", err)
	}
}

// watch notes, by tick, for how long this process stood still in its period and the two beside it, until ctx ends.
func watch(ctx context.Context, start time.Time) (stood map[int]time.Duration) {
	stood = map[int]time.Duration{}
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(2 * time.Millisecond)
		now := time.Now()
		if gap := now.Sub(last); gap > 4*time.Millisecond {
			for tick := 1 + int(now.Sub(start)/period); tick >= int(last.Sub(start)/period); tick-- {
				stood[tick] += gap
			}
		}
		last = now
	}
	return stood
}

// judge returns what is wrong with a job's ticks, and how many more are excused: a scheduler asked too late, took too
// long to ask, or did not ask, at that tick or at the one before, whose lock then stays for longer; or the machine stood
// still for too long.
func judge(last int, asks []ask, runs []run, stood map[int]time.Duration) (wrong []string, excused int) {
	inTime := map[int]int{0: 2} // by tick, the schedulers that asked in time
	for _, a := range asks {
		if a.Late <= skew-ahead && a.Took <= period/3 {
			inTime[a.Tick]++
		}
	}
	count, before := map[int]int{}, run{}
	for _, r := range runs {
		count[r.Tick]++
		if r.Token <= before.Token || r.Tick < before.Tick {
			wrong = append(wrong, fmt.Sprintf("%+v after %+v", r, before))
		}
		before = r
	}
	for tick := 1; tick <= last; tick++ {
		switch {
		case count[tick] == 1:
		case inTime[tick] < 2 || inTime[tick-1] < 2 || stood[tick] > period/30:
			excused++
		default:
			wrong = append(wrong, fmt.Sprintf("tick %d: %d runs", tick, count[tick]))
		}
	}
	return wrong, excused
}

// The judge notices a run too many, a tick without one and a token that does not rise.
func TestJudge(t *testing.T) {
	var inTime, late []ask
	for tick := 1; tick <= 3; tick++ {
		inTime = append(inTime, ask{Tick: tick}, ask{Tick: tick, Late: skew - ahead})
		late = append(late, ask{Tick: tick}, ask{Tick: tick, Late: skew - ahead + 1})
	}
	for what, test := range map[string]struct {
		asks    []ask
		runs    []run
		want    string
		excused int
	}{
		"once":             {inTime, []run{{1, 7}, {2, 8}, {3, 9}}, "", 0},
		"twice":            {inTime, []run{{1, 7}, {1, 8}, {2, 9}, {3, 10}}, "tick 1: 2 runs", 0},
		"missed":           {inTime, []run{{1, 7}, {3, 9}}, "tick 2: 0 runs", 0},
		"an equal token":   {inTime, []run{{1, 7}, {2, 7}, {3, 9}}, "{Tick:2 Token:7} after {Tick:1 Token:7}", 0},
		"missed, but late": {late, []run{{1, 7}, {3, 9}}, "", 1},
	} {
		if wrong, excused := judge(3, test.asks, test.runs, nil); strings.Join(wrong, "; ") != test.want || excused != test.excused {
			t.Errorf("%s: %q and %d excused", what, wrong, excused)
		}
	}
}

// Two processes, whose clocks differ, run each of three jobs once per tick, while one master after the other
// is killed and restarts empty. What happens without the min hold TestAgainstTryLock shows.
func TestTwoProcesses(t *testing.T) {
	fleet := testkit.Real(t, 4)
	register, start := fleet.Masters[3], time.Now().Add(2*time.Second)
	stop, killed := make(chan struct{}), make(chan int)
	go func() { killed <- killInTurn(t, fleet.Masters[:3], start, stop) }()
	watching, end := context.WithCancel(t.Context())
	defer end()
	watched := make(chan map[int]time.Duration, 1)
	go func() { watched <- watch(watching, start) }()
	var mu sync.Mutex
	var asks []ask
	var playing sync.WaitGroup
	for _, offset := range []time.Duration{0, ahead} {
		text, err := json.Marshal(plan{fleet.URLs()[:3], register.Addr(), start, offset})
		must(t, err)
		process := exec.CommandContext(t.Context(), os.Args[0])
		process.Env, process.Stderr = append(os.Environ(), planVariable+"="+string(text)), os.Stderr
		_, err = process.StdinPipe() // its end, with this process at the latest, ends the scheduler
		must(t, err)
		out, err := process.StdoutPipe()
		must(t, err)
		must(t, process.Start())
		playing.Go(func() {
			var a ask
			for lines := json.NewDecoder(out); lines.Decode(&a) == nil; a = (ask{}) {
				mu.Lock()
				asks = append(asks, a)
				mu.Unlock()
			}
			if err := process.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	playing.Wait()
	close(stop)
	end()
	stood := <-watched
	deaths, excused := <-killed, 0
	var wrong []string
	for _, job := range jobs {
		texts, err := redis.ByteSlices(register.Do("LRANGE", job+":runs", 0, -1))
		must(t, err)
		runs := make([]run, len(texts))
		for i, text := range texts {
			must(t, json.Unmarshal(text, &runs[i]))
		}
		found, late := judge(ticks, slices.DeleteFunc(slices.Clone(asks), func(a ask) bool { return a.Job != job }), runs, stood)
		wrong, excused = append(wrong, found...), excused+late
	}
	t.Logf("%d ticks of %v, %d masters died, %d wrong ticks are excused", ticks, period, deaths, excused)
	if deaths < ticks/10 {
		t.Errorf("only %d masters died", deaths)
	}
	if excused > ticks*len(jobs)/10 {
		t.Skipf("SKIPPED, this machine is too busy: at %d wrong ticks it was later than the skew allows", excused)
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

// killInTurn kills one master after the other, from the second tick on, and starts each again. It waits until a
// master has granted a lock again before it kills the next one. It returns how many died.
func killInTurn(t *testing.T, masters []*redistest.Master, start time.Time, stop <-chan struct{}) (deaths int) {
	pause := func(d time.Duration) (goesOn bool) {
		select {
		case <-stop:
			return false
		case <-time.After(d):
			return true
		}
	}
	for goesOn := pause(time.Until(start.Add(period))); goesOn; deaths++ {
		m := masters[deaths%len(masters)]
		if err := m.Kill(); err != nil {
			t.Error(err)
			return deaths
		}
		goesOn = pause(time.Duration(1+deaths%4) * period / 2)
		if err := m.Start(); err != nil {
			t.Error(err)
			return deaths
		}
		for has := false; !has && goesOn; has, _ = redis.Bool(m.Do("EXISTS", jobs[0])) {
			goesOn = pause(period / 20)
		}
		goesOn = goesOn && pause(time.Duration(deaths%3)*period/2)
	}
	return deaths
}

var must = testkit.Must
