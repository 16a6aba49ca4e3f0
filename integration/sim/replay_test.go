package sim

import (
	"context"
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
)

var replays = flag.Int("sim.replays", 25, "how many seeds TestReplay plays twice, from 1 on")

// A seed is one run, to the nanosecond, whatever the scheduler does. The package
// comment tells of the seldom exceptions.
func TestReplay(t *testing.T) {
	var differ atomic.Int64
	played := eachSeed(t, *replays, func(t *testing.T, seed uint64) {
		p := newPlan(seed)
		once, again := play(t, p), play(t, p)
		if !same(t, once.sorted(), again.sorted()) {
			t.Logf("%v", p)
			differ.Add(1)
		}
	})
	n := differ.Load()
	testkit.Check(t, n <= int64(played)/10, "%d of %d seeds had two different runs", n, played)
}

// same compares the traces of two runs, with the events, and logs where they differ.
func same(t *testing.T, once, again []string) bool {
	t.Helper()
	at := 0
	for at < min(len(once), len(again)) && once[at] == again[at] {
		at++
	}
	if at == len(once) && at == len(again) {
		return true
	}
	t.Logf("two runs, of %d and %d lines, behind\n%s", len(once), len(again), strings.Join(once[max(0, at-10):at], "\n"))
	t.Logf("once\n%s\nand again\n%s", strings.Join(once[at:min(len(once), at+5)], "\n"), strings.Join(again[at:min(len(again), at+5)], "\n"))
	return false
}

// A release that got NOSCRIPT was not resent with the script's source: from the first SCRIPT FLUSH until the
// connection died, no Unlock succeeded and every lock stayed for its lease. Found by seed 19.
func TestScriptsAreForgottenWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		p := newPlan(seed + 1)
		p.faults, p.weather.Slow, p.weather.Loss = nil, 0, 0
		p.timeout = max(p.timeout, 10*p.weather.Latency) // for a connection, and for scripts that are sent again
		for m := range p.masters {
			p.faults = append(p.faults, world.Fault{Kind: world.KindOf("unload"), Master: m, At: p.lease + p.unit})
		}
		judge(t, p)
	}
}

// Close did not wait for the attempts that it ended: it could close the nodes before their grants
// were undone, and the keys stayed for their lease. Found by TestReplay with seed 841, as a race.
func TestCloseUndoesAttempts(t *testing.T) {
	p := newPlan(1)
	p.masters, p.masterRate, p.all, p.noQuarantine, p.weather.Slow, p.weather.Loss = 3, []float64{1, 1, 1}, true, true, 0, 0
	// Master 2 grants, and its replies do not arrive.
	w := newRun(p)
	synctest.Test(t, func(t *testing.T) {
		w.build(t)
		c, err := newClient(w.machines[0])
		testkit.Must(t, err)
		time.Sleep(p.lease)
		w.Inject(world.Fault{Kind: world.KindOf("cut-down"), Master: 2})
		ended := make(chan error)
		go func() {
			_, err := c.locker.Lock(context.Background(), "a")
			ended <- err
		}()
		time.Sleep(5 * p.weather.Latency) // every master has granted it
		left := w.lockKeys()
		testkit.Check(t, len(left) == 3, "want three keys of a half-done attempt, got %v", left)
		var closing sync.WaitGroup
		closing.Go(c.close)
		err = <-ended
		testkit.Check(t, err != nil, "Lock of a closed locker succeeded")
		time.Sleep(5 * p.weather.Latency)
		left = w.lockKeys()
		testkit.Check(t, len(left) == 0, "left behind: %v", left)
		closing.Wait()
	})
}
