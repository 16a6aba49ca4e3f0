package gocronquorumlock

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/jonboulle/clockwork"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// planVariable has the plan of a process that is to be a scheduler instead of testing, as JSON.
const planVariable = "QUORUMLOCK_TEST_SCHEDULER"

// plan is what a scheduler's process does.
type plan struct {
	Process      int
	URLs         []string // of the masters
	Register     string   // the address of the server that the runs are written to
	Jobs         []string
	Start        time.Time // the first tick, whose number is 1
	Ticks        int
	Period, Skew time.Duration
	MaxLease     time.Duration
	Ahead        time.Duration // of this process's clock
	Bare         bool          // no min hold; the process behind asks when the one ahead is done with the tick
}

// said is what a scheduler's process reports, one of the two in a line.
type said struct {
	Ask   *ask   `json:",omitempty"`
	Stall *stall `json:",omitempty"`
}

// watch reports when this process has stood still, until ctx ends.
func (p *plan) watch(ctx context.Context, report func(stall)) {
	const usual = 2 * time.Millisecond
	again := time.NewTimer(usual)
	defer again.Stop()
	for last := time.Since(p.Start); ; {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		now := time.Since(p.Start)
		if now-last > 2*usual {
			report(stall{last, now})
		}
		last = now
		again.Reset(usual)
	}
}

// schedulerProcess plays the plan, and writes each ask as a line. It returns the exit code.
func schedulerProcess(text string) int {
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.play()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		return 1
	}
	return 0
}

func (p *plan) play() error {
	locker, err := redlock.Open(p.URLs,
		quorum.WithNodeOptions(node.WithTimeout(p.MaxLease), node.WithMaxLease(p.MaxLease)))
	if err != nil {
		return err
	}
	defer locker.Close()
	by, err := New(locker, p.Period, p.Skew)
	if err != nil {
		return err
	}
	register := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", p.Register)
	}}
	defer register.Close()
	player := &player{plan: p, by: by, clock: offsetClock{Clock: clockwork.NewRealClock(), ahead: p.Ahead},
		lines: json.NewEncoder(os.Stdout), register: register, tokens: map[string]uint64{}, done: map[string]int{}}
	return player.play(locker)
}

// player is a scheduler and its locker, which reports what it is asked.
type player struct {
	plan     *plan
	by       *Locker
	bare     *quorum.Locker // nil with a min hold
	clock    offsetClock
	register *redis.Pool

	mu     sync.Mutex
	lines  *json.Encoder
	tokens map[string]uint64 // of bare locks, by job
	done   map[string]int    // by job, the last tick that the process ahead is known to be done with
}

func (p *player) play(locker *quorum.Locker) error {
	if p.plan.Bare {
		p.bare = locker
	}
	s, err := gocron.NewScheduler(gocron.WithClock(p.clock), gocron.WithDistributedLocker(p))
	if err != nil {
		return err
	}
	for _, job := range p.plan.Jobs {
		_, err := s.NewJob(gocron.DurationJob(p.plan.Period),
			gocron.NewTask(func(ctx context.Context) { p.run(ctx, job) }),
			gocron.WithName(job), gocron.WithStartAt(gocron.WithStartDateTime(p.plan.Start)))
		if err != nil {
			return err
		}
	}
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	go p.plan.watch(watching, func(s stall) { p.say(said{Stall: &s}) })
	s.Start()
	end := p.plan.Start.Add(time.Duration(p.plan.Ticks)*p.plan.Period - p.plan.Period/4)
	over := make(chan struct{})
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin) // the test has ended
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(time.Until(end)):
	}
	return s.Shutdown()
}

// tick returns the number of the present tick, and how late it is.
func (p *player) tick() (number int, late time.Duration) {
	since := p.clock.Now().Sub(p.plan.Start)
	number = int((since + p.plan.Period/10) / p.plan.Period) // a timer may be a little early by this clock
	return 1 + number, since - time.Duration(number)*p.plan.Period
}

// Lock asks for the lock of a job, and reports that.
func (p *player) Lock(ctx context.Context, job string) (held gocron.Lock, err error) {
	a := ask{Process: p.plan.Process, Job: job}
	a.Tick, a.Late = p.tick()
	began := time.Now()
	token := uint64(0)
	if p.bare != nil {
		held, token, err = p.lockBare(ctx, job, a.Tick)
	} else {
		held, err = p.by.Lock(ctx, job)
	}
	a.Took = time.Since(began)
	if err != nil {
		a.Error = err.Error()
	}
	p.mu.Lock()
	p.tokens[job] = token
	p.mu.Unlock()
	p.say(said{Ask: &a})
	return held, err
}

// lockBare locks without a min hold. The process whose clock is behind first waits until the one ahead is
// done with the tick. On an idle machine it finds that so: a run is shorter than the clocks are apart.
func (p *player) lockBare(ctx context.Context, job string, tick int) (gocron.Lock, uint64, error) {
	unlocked := func() {}
	if p.plan.Ahead > 0 {
		unlocked = func() { p.atRegister("RPUSH", doneKey(job), tick) }
	} else {
		p.awaitDone(job, tick)
	}
	lock, err := p.bare.TryLock(ctx, job)
	if err != nil {
		unlocked()
		return nil, 0, err
	}
	return &reportedLock{lock, unlocked}, lock.Token(), nil
}

// doneKey is of a list of the ticks that the process ahead is done with.
func doneKey(job string) string { return job + ":done" }

// awaitDone waits until the process ahead is done with the tick, or with a later one: a busy scheduler
// leaves ticks out.
func (p *player) awaitDone(job string, tick int) {
	const bound = 10 * time.Second // the process ahead may have ended
	for p.lastDone(job, 0) < tick {
		popped, err := redis.IntMap(p.atRegister("BLPOP", doneKey(job), bound.Seconds()))
		if err != nil {
			return
		}
		p.lastDone(job, popped[doneKey(job)])
	}
}

// lastDone raises the last tick that the process ahead is known to be done with, and returns it.
func (p *player) lastDone(job string, tick int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[job] = max(p.done[job], tick)
	return p.done[job]
}

// reportedLock calls a function when it has been unlocked.
type reportedLock struct {
	gocron.Lock
	unlocked func()
}

func (l *reportedLock) Unlock(ctx context.Context) error {
	defer l.unlocked()
	return l.Lock.Unlock(ctx)
}

// atRegister sends the register's server a command.
func (p *player) atRegister(command string, args ...any) (any, error) {
	conn := p.register.Get()
	defer conn.Close()
	reply, err := conn.Do(command, args...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", p.plan.Process, command, "at the register:", err)
	}
	return reply, err
}

func (p *player) say(what said) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.lines.Encode(what); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
	}
}

// run writes down that the job runs, with its token.
func (p *player) run(ctx context.Context, job string) {
	r := run{Process: p.plan.Process, Job: job, Token: p.token(job)}
	r.Tick, _ = p.tick()
	text, err := json.Marshal(r)
	if err == nil {
		conn := p.register.Get()
		defer conn.Close()
		_, err = fence.StampKey(ctx, conn, job+":token", r.Token,
			fence.Command{Name: "RPUSH", Args: []any{job + ":runs", text}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", p.plan.Process, "job", job, "at tick", r.Tick, "was not written down:", err)
	}
}

// token returns the token of the lock under which the job runs; 0 for none.
func (p *player) token(job string) uint64 {
	if p.bare != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.tokens[job]
	}
	if lock, ok := p.by.Held(job); ok {
		return lock.Token()
	}
	return 0
}
