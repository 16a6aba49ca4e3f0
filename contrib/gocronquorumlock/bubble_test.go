package gocronquorumlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// offsetClock is a scheduler's clock: ahead of the true time, with timers that fire late.
type offsetClock struct {
	clockwork.Clock
	ahead  time.Duration
	jitter func() time.Duration // nil for none
}

func (c offsetClock) Now() time.Time { return c.Clock.Now().Add(c.ahead) }

func (c offsetClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	if c.jitter != nil {
		d += c.jitter()
	}
	return c.Clock.AfterFunc(d, f)
}

const (
	period    = 300 * time.Millisecond // of jobs in a bubble
	firstTick = 4                      // after the first quarantine of new masters
)

// cluster is three masters and the schedulers of a service, in a synctest bubble or on real servers.
type cluster struct {
	*testing.T
	period time.Duration
	world  *world.World // of a bubble
	start  time.Time

	mu     sync.Mutex
	runs   map[string]map[int]int // how often a job ran at a tick
	tokens map[string]uint64      // the last one of each job
	stale  []string               // runs without a lock, or with a token that does not rise
}

func newCluster(t *testing.T, period time.Duration) *cluster {
	return &cluster{T: t, period: period, start: time.Now(), runs: map[string]map[int]int{}, tokens: map[string]uint64{}}
}

func inBubble(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, period)
		c.world = world.New(t, 3)
		test(c)
		testkit.Check(t, len(c.stale) == 0, "%v", c.stale)
	})
}

// process opens a quorum locker of its own, as another process does. One master is farther away from it.
func (c *cluster) process(far int) *quorum.Locker {
	c.Helper()
	p := c.world.NewProcess()
	p.Far(far, time.Millisecond)
	l := testkit.Got(quorum.New(p.Nodes(node.WithTimeout(50*time.Millisecond), node.WithMaxLease(2*c.period)), quorum.Majority,
		quorumtest.WithClock(p.Clock), quorumtest.WithRand(p)))(c)
	c.Cleanup(func() { l.Close() })
	synctest.Wait()
	return l
}

// job is a job of the service. It takes some time.
type job struct {
	name  string
	takes time.Duration
}

// scheduler starts a scheduler of these jobs.
func (c *cluster) scheduler(by gocron.Locker, clock offsetClock, jobs ...job) {
	c.Helper()
	clock.Clock = clockwork.NewRealClock() // the bubble's
	s := testkit.Got(gocron.NewScheduler(gocron.WithClock(clock), gocron.WithDistributedLocker(by)))(c)
	c.Cleanup(func() { testkit.Must(c, s.Shutdown()) })
	for _, j := range jobs {
		testkit.Got(s.NewJob(gocron.DurationJob(c.period), gocron.NewTask(func() {
			c.ran(j.name, c.tick(clock.Now()))
			if l, ok := by.(*Locker); ok {
				c.stamp(j.name, l)
			}
			time.Sleep(j.takes) // of the bubble's time
		}), gocron.WithName(j.name), gocron.WithStartAt(gocron.WithStartDateTime(c.start.Add(firstTick*c.period)))))(c)
	}
	s.Start()
	if c.world != nil {
		synctest.Wait()
	}
}

// tick returns the number of the last tick before an instant of a scheduler's clock.
func (c *cluster) tick(at time.Time) int { return int(at.Sub(c.start) / c.period) }

func (c *cluster) ran(job string, tick int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[job] == nil {
		c.runs[job] = map[int]int{}
	}
	c.runs[job][tick]++
}

// stamp checks that the tokens of a job's runs rise.
func (c *cluster) stamp(job string, l *Locker) {
	lock, ok := l.Held(job)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok || !lock.Valid() || lock.Token() <= c.tokens[job] {
		c.stale = append(c.stale, fmt.Sprintf("%s runs under the lock %v with token %d after %d", job, ok, lock.Token(), c.tokens[job]))
		return
	}
	c.tokens[job] = lock.Token()
}

// wrong counts the runs of a job that are too many, and the ticks without one, from the first tick to
// the last.
func (c *cluster) wrong(job string, first, last int) (twice, missed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tick := first; tick <= last; tick++ {
		switch n := c.runs[job][tick]; n {
		case 0:
			missed++
		default:
			twice += n - 1
		}
	}
	return twice, missed
}

// wantOnce fails the test unless the job ran once at each tick.
func (c *cluster) wantOnce(job string, first, last int) {
	c.Helper()
	twice, missed := c.wrong(job, first, last)
	testkit.Check(c, twice+missed == 0,
		"%s: of the ticks %d to %d, %d runs too many and %d ticks without", job, first, last, twice, missed)
}

// until sleeps until a time after a tick, by the true clock.
func (c *cluster) until(tick int, after time.Duration) {
	time.Sleep(time.Until(c.start.Add(time.Duration(tick)*c.period + after)))
}

// dying kills one master after the other, and starts each again, until stop. It waits until a master has
// granted a job's lock again before the next one dies.
func (c *cluster) dying(random *rand.Rand, job string) (stop func() (deaths int)) {
	ctx, cancel := context.WithCancel(context.Background())
	deaths := make(chan int)
	pause := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	go func() {
		n := 0
		defer func() { deaths <- n }()
		c.until(firstTick, c.period/2) // when the masters have confirmed their list
		for ; ; n++ {
			m := c.world.Masters[n%len(c.world.Masters)]
			if !pause(time.Duration(random.Int64N(int64(3 * c.period)))) {
				return
			}
			m.Crash(fakeredis.Nothing)
			if !pause(time.Duration(random.Int64N(int64(3 * c.period)))) {
				return
			}
			m.Start()
			for !slices.Contains(m.Keys(), job) { // its quarantine ends, and it grants again
				if !pause(c.period / 50) {
					return
				}
			}
		}
	}()
	return func() int { cancel(); return <-deaths }
}

func (c *cluster) locker(by *quorum.Locker, skew time.Duration) *Locker {
	c.Helper()
	return testkit.Got(New(by, c.period, skew))(c)
}

// bare is a gocron.Locker without a min hold: what the Locker is held against.
type bare struct{ locker *quorum.Locker }

func (b bare) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	return b.locker.TryLock(ctx, job)
}
