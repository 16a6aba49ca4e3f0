package quorumtest

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock/fakeclock"
)

// Explore runs a test under random faults, once per seed from 1 to seeds, until it fails. Each seed has
// a testing/synctest bubble and three masters of its own, and takes milliseconds: the test may sleep
// for hours. The faults come within the first minutes: have the work last as long.
//
// While the test runs, masters stand still, or crash and come back empty; lockers are cut off from
// masters; requests and replies come late, or are lost with their connection; lockers' clocks run
// fast or slow, within what a lease allows for; and a process stands still in some calls of
// [Masters.Work]: have the test's stand-in for the work call it. After a few faults all is well again,
// so whoever waits for a lock gets it. Each locker of [Masters.Locker] or [Masters.Options] is a
// process. If no process ever stood still, Explore fails: no seed could find what a pause does.
//
// Each seed is a subtest, which replays alone:
//
//	go test -v -run '^TestCharge$/^seed=17$'
//
// The output of a subtest shows its faults, with the bubble's time. A seed fixes the faults and the
// library's random numbers, but not which goroutine comes first if several could go on at one instant.
// Explore sets GOMAXPROCS to 1 meanwhile, which is faster and makes that order the same in most runs.
func Explore(t *testing.T, seeds int, test func(t *testing.T, masters *Masters)) {
	t.Helper()
	if seeds < 1 {
		t.Fatalf("quorumtest: Explore with %d seeds runs nothing", seeds)
	}
	exploring.Lock()
	defer exploring.Unlock()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var all pauses
	for seed := 1; seed <= seeds; seed++ {
		name := fmt.Sprint("seed=", seed)
		passed := t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { explore(t, uint64(seed), &all, test) })
		})
		if !passed {
			this := strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^")
			t.Fatalf("to replay: go test -v -run '^%s$/^%s$'", this, name)
		}
	}
	if all.ran == seeds && all.made == 0 && (all.calls == 0 || seeds >= seedsToPause) {
		t.Fatalf("quorumtest: no process ever stood still: have the test's stand-in for the work call Masters.Work within the first minutes")
	}
}

// seedsToPause is how many seeds make a pause if Work is called while there are faults: every other call pauses.
const seedsToPause = 20

// pauses counts, over all seeds, those that ran to their end, calls of Work, and pauses.
type pauses struct{ ran, calls, made int }

// exploring is for GOMAXPROCS, which is the whole process's.
var exploring sync.Mutex

func explore(t *testing.T, seed uint64, all *pauses, test func(t *testing.T, masters *Masters)) {
	t.Cleanup(func() { time.Sleep(2 * longest) }) // last: what is on its way to a closed locker arrives
	m := Start(t, 3)
	x := &exploration{seed: seed, masters: m.fleet, over: make(chan struct{}), all: all}
	x.clocks = rand.New(x.source("clocks"))
	m.exploration = x
	var faults sync.WaitGroup
	faults.Go(x.run)
	defer faults.Wait()
	defer close(x.over)
	test(t, m)
	all.ran++ // unless the seed was skipped
}

// exploration is what a seed decides.
type exploration struct {
	seed    uint64
	masters *fleet
	over    chan struct{} // closed at the end of the test

	clocks *rand.Rand // under the mutex of the processes

	mu      sync.Mutex
	windows []window
	healed  bool
	all     *pauses
}

// window is a time in which nothing passes between a process and a master.
type window struct {
	process, master int // -1 for all
	until           time.Time
}

// source returns the random numbers for one purpose.
func (x *exploration) source(purpose string, keys ...int) rand.Source {
	h := fnv.New64a()
	fmt.Fprint(h, purpose, keys)
	return rand.NewPCG(x.seed, h.Sum64())
}

// newClock returns a clock that is up to 0.4 % fast or slow: two of them differ by less than a lease
// allows for.
func (x *exploration) newClock() *fakeclock.Clock {
	c := fakeclock.New()
	c.SetRate(1 + 0.004*(2*x.clocks.Float64()-1))
	return c
}

const shortest, longest = 50 * time.Millisecond, 2 * time.Minute

// lasting draws a duration, by its logarithm: leases may be short or long.
func lasting(d *rand.Rand) time.Duration {
	return time.Duration(float64(shortest) * math.Pow(float64(longest/shortest), d.Float64()))
}

// run makes the faults.
func (x *exploration) run() {
	d := rand.New(x.source("faults"))
	for range 1 + d.IntN(8) {
		if !x.sleep(lasting(d)) {
			break
		}
		process, master, lasts := d.IntN(max(x.size(), 1)), d.IntN(len(x.masters.servers)), lasting(d)
		switch d.IntN(4) {
		case 0:
			x.note("a master stands still", "master", master, "for", lasts)
			x.shut(window{-1, master, time.Now().Add(lasts)})
		case 1:
			x.note("a process is cut off from all masters", "process", process, "for", lasts)
			x.shut(window{process, -1, time.Now().Add(lasts)})
		case 2:
			x.note("a process is cut off from a master", "process", process, "master", master, "for", lasts)
			x.shut(window{process, master, time.Now().Add(lasts)})
		default:
			x.note("a master crashes, and comes back empty", "master", master, "after", lasts)
			s := x.masters.servers[master]
			s.setOff(&s.isDown, true)
			s.forget()
			x.sleep(lasts)
			s.setOff(&s.isDown, false)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.healed = true
}

// sleep reports whether the test still runs.
func (x *exploration) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-x.over:
		return false
	}
}

func (x *exploration) note(what string, args ...any) {
	x.masters.logger.Log(context.Background(), slog.LevelInfo, "quorumtest: "+what, args...)
}

func (x *exploration) size() int {
	x.masters.processesMu.Lock()
	defer x.masters.processesMu.Unlock()
	return len(x.masters.processes)
}

func (x *exploration) shut(w window) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.windows = append(x.windows, w)
}

// pause has a process stand still in every other call of Work, or so.
func (x *exploration) pause(p *process) {
	d := rand.New(x.source("pause", p.number, int(time.Now().UnixNano())))
	if !x.pauses(d.IntN(2) == 0) {
		return
	}
	lasts := lasting(d)
	x.note("a process stands still", "process", p.number, "for", lasts)
	p.pause(lasts)
}

// pauses reports whether a call of Work pauses the process, which also hangs on a coin.
func (x *exploration) pauses(coin bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all.calls++
	if x.healed || !coin {
		return false
	}
	x.all.made++
	return true
}

// carry waits until data arrives. What becomes of it depends only on the time and the connection: goroutines
// of one instant run in any order.
func (x *exploration) carry(c *conn, up bool, by time.Time) error {
	d := rand.New(x.source("way", c.process.number, c.master, c.number, bit(up), int(time.Now().UnixNano())))
	at := time.Now().Add(200*time.Microsecond + time.Duration(d.ExpFloat64()*float64(200*time.Microsecond)))
	x.mu.Lock()
	if !x.healed && d.IntN(50) == 0 {
		at = at.Add(time.Duration(d.Float64() * float64(time.Second)))
	}
	isLost := !x.healed && d.IntN(200) == 0
	for _, w := range x.windows {
		if (w.process < 0 || w.process == c.process.number) && (w.master < 0 || w.master == c.master) && at.Before(w.until) {
			at = w.until
		}
	}
	x.mu.Unlock()
	if !by.IsZero() && at.After(by) {
		time.Sleep(c.turn(up).after(by))
		return os.ErrDeadlineExceeded
	}
	time.Sleep(c.turn(up).after(at))
	if isLost && c.Conn != nil {
		c.Conn.Close()
		return syscall.ECONNRESET
	}
	return nil
}

// turns is the number of nanoseconds in a round, in which each direction of a connection, and each timer, has one of
// its own. The order of events at one instant is not fixed, so they have no instant in common.
const turns = 1 << 14

type turn int

// after returns how long it is until the first turn after an instant.
func (t turn) after(at time.Time) time.Duration {
	at = at.Add(1)
	return time.Until(at.Add(time.Duration((int64(t) - at.UnixNano()) & (turns - 1))))
}
