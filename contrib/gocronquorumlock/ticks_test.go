package gocronquorumlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Every job runs once per tick, whatever it takes, while masters die.
func TestOncePerTick(t *testing.T) {
	const skew, jitter = 50 * time.Millisecond, 10 * time.Millisecond
	const ticks = 120
	jobs := []job{{"brief", 0}, {"usual", 20 * time.Millisecond}, {"longer than the min hold", period / 2}}
	inBubble(t, func(c *cluster) {
		random := rand.New(rand.NewPCG(1, 1))
		for i := range 3 {
			late := rand.New(rand.NewPCG(2, uint64(i)))
			clock := offsetClock{
				ahead:  time.Duration(i) * (skew - jitter) / 2,
				jitter: func() time.Duration { return time.Duration(late.Int64N(int64(jitter))) },
			}
			c.scheduler(c.locker(c.process(i), skew), clock, jobs...)
		}
		stop := c.dying(random, "usual")
		c.until(firstTick+ticks, -period/2)
		deaths := stop()
		c.Logf("%d ticks, and %d masters died", ticks, deaths)
		testkit.Check(c, deaths >= ticks/10, "only %d masters died", deaths)
		for _, j := range jobs {
			c.wantOnce(j.name, firstTick, firstTick+ticks-1)
		}
	})
}

// The same on real servers and by the machine's clock, for fewer ticks: two schedulers, whose clocks differ, each with
// a locker of its own as another process has. One master after the other is killed, and restarts empty.
func TestTwoProcesses(t *testing.T) {
	const period, skew, maxLease = time.Second, 200 * time.Millisecond, 350 * time.Millisecond // the min hold and some
	jobs := []job{{"brief", 0}, {"usual", 20 * time.Millisecond}, {"longer than the min hold", period / 2}}
	fleet, c := testkit.Real(t, 3), newCluster(t, period)
	for i := range 2 {
		l, err := redlock.Open(fleet.URLs(), quorum.WithNodeOptions(node.WithTimeout(maxLease), node.WithMaxLease(maxLease)))
		testkit.Must(c, err)
		t.Cleanup(func() { testkit.Must(c, l.Close()) })
		c.scheduler(c.locker(l, skew), offsetClock{ahead: time.Duration(i) * period / 10}, jobs...)
	}
	watch := poll.Start()
	defer watch.Stop()
	for i, m := range fleet.Masters {
		c.until(firstTick+2*i, period/2)
		testkit.Must(c, m.Kill())
		c.until(firstTick+2*i+1, period/2)
		testkit.Must(c, m.Start())
	}
	c.until(firstTick+8, -period/2)
	c.mu.Lock()
	wrong := c.stale
	c.mu.Unlock()
	for _, j := range jobs {
		if twice, missed := c.wrong(j.name, firstTick, firstTick+7); twice+missed > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d runs too many and %d ticks without", j.name, twice, missed))
		}
	}
	if _, stalled := watch.Read(); len(wrong) > 0 && stalled > skew/4 {
		t.Skipf("SKIPPED, this machine is too busy: it stood still for %v: %q", stalled, wrong)
	}
	testkit.Check(t, len(wrong) == 0, "%v", wrong)
}

// What the Locker adds: with TryLock a brief job runs twice if the schedulers' clocks differ, or if a master is dead and each
// scheduler takes a vote from the other: one of the two tries again, when the other's run may be over.
func TestAgainstTryLock(t *testing.T) {
	const skew, ticks = 50 * time.Millisecond, 100
	for what, test := range map[string]struct {
		ahead  time.Duration
		isDead bool // a master is
		bare   bool // without the Locker
	}{
		"clocks that differ":          {ahead: skew - time.Millisecond},
		"clocks that differ, TryLock": {ahead: skew - time.Millisecond, bare: true},
		"a dead master":               {isDead: true},
		"a dead master, TryLock":      {isDead: true, bare: true},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				for i := range 2 {
					var by gocron.Locker = bare{c.process(i)}
					if !test.bare {
						by = c.locker(by.(bare).locker, skew)
					}
					c.scheduler(by, offsetClock{ahead: time.Duration(i) * test.ahead}, job{"brief", 0})
				}
				if test.isDead {
					c.until(firstTick, period/2) // when the masters have confirmed the list of masters
					c.world.Masters[2].Stop()
				}
				c.until(firstTick+ticks+1, -period/2)
				twice, missed := c.wrong("brief", firstTick+1, firstTick+ticks)
				c.Logf("%d runs too many and %d ticks without", twice, missed)
				testkit.Check(c, twice > 0 == test.bare && missed == 0, "want runs too many: %v, and no tick without", test.bare)
			})
		})
	}
}

// A process that dies, just after its run or at the end of the min hold, leaves the lock to its lease: no
// scheduler runs that tick again, and one of them runs the next.
func TestProcessThatDies(t *testing.T) {
	const skew = 50 * time.Millisecond
	for _, dies := range []time.Duration{time.Millisecond, period / 6, period/3 - time.Millisecond} {
		t.Run(dies.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				for i, ahead := range []time.Duration{0, skew / 2, skew - time.Millisecond} {
					p := c.process(i)
					c.scheduler(c.locker(p, skew), offsetClock{ahead: ahead}, job{"brief", 0})
					if i == 2 { // it asks first, and runs every tick before
						time.AfterFunc(time.Until(c.start.Add((firstTick+5)*period-ahead+dies)), func() { p.Close() })
					}
				}
				c.until(firstTick+10, -period/2)
				c.wantOnce("brief", firstTick, firstTick+9)
			})
		})
	}
}

// Each of the settings that New refuses does harm.
func TestRefusedSettings(t *testing.T) {
	const skew, ticks = 60 * time.Millisecond, 20
	for what, test := range map[string]struct {
		minHold, wait time.Duration
		dies          bool // the process that asks first, at the end of its min hold
		twice, missed bool
	}{
		"the defaults":                     {minHold: 100 * time.Millisecond, wait: 20 * time.Millisecond, dies: true},
		"min hold below the skew":          {minHold: skew - 10*time.Millisecond, wait: time.Millisecond, twice: true},
		"min hold below the skew and wait": {minHold: 100 * time.Millisecond, wait: 60 * time.Millisecond, twice: true},
		"twice the min hold above a period": {minHold: 250 * time.Millisecond, wait: 10 * time.Millisecond, dies: true,
			missed: true},
		"min hold above the period": {minHold: 310 * time.Millisecond, wait: 10 * time.Millisecond, missed: true},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				for i, ahead := range []time.Duration{0, skew - time.Millisecond} {
					p := c.process(i)
					l := newLocker(p, &settings{minHold: test.minHold, wait: test.wait})
					c.scheduler(l, offsetClock{ahead: ahead}, job{"brief", 0})
					if test.dies && i == 1 {
						at := c.start.Add((firstTick+5)*period - ahead + test.minHold - time.Millisecond)
						time.AfterFunc(time.Until(at), func() { p.Close() })
					}
				}
				c.until(firstTick+ticks, -period/2)
				twice, missed := c.wrong("brief", firstTick, firstTick+ticks-1)
				c.Logf("%d runs too many, and %d ticks without", twice, missed)
				testkit.Check(c, twice > 0 == test.twice && missed > 0 == test.missed,
					"want runs too many %v, ticks without %v", test.twice, test.missed)
				_, err := New(c.process(0), period, skew, WithMinHold(test.minHold), WithWait(test.wait))
				testkit.Check(c, errors.Is(err, quorum.ErrInvalid) == (test.twice || test.missed), "New: %v", err)
			})
		})
	}
}
