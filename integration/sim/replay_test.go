package sim

import (
	"context"
	"flag"
	"fmt"
	"slices"
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
		if !same(t, "trace", once.trace.sorted(), again.trace.sorted()) ||
			!same(t, "history", once.history(), again.history()) {
			t.Logf("%v", p)
			differ.Add(1)
		}
	})
	n := differ.Load()
	testkit.Check(t, n <= int64(played)/10, "%d of %d seeds had two different runs", n, played)
}

// history returns the events in an order that does not depend on when they were added.
func (w *run) history() []string {
	var all []string
	lockers := w.trace.lockers()
	for _, e := range w.events {
		all = append(all, lockers.Replace(fmt.Sprintf("%+v", e)))
	}
	slices.Sort(all)
	return all
}

// same compares two runs and logs the first difference, with the equal lines before it.
func same(t *testing.T, what string, once, again []string) bool {
	t.Helper()
	if slices.Equal(once, again) {
		return true
	}
	at := 0
	for at < min(len(once), len(again)) && once[at] == again[at] {
		at++
	}
	t.Logf("two runs: %s, of %d and %d lines, differing from line %d on", what, len(once), len(again), at+1)
	for _, line := range once[max(0, at-*before):at] {
		t.Log("  ", line)
	}
	for _, line := range once[at:min(len(once), at+5)] {
		t.Log("- ", line)
	}
	for _, line := range again[at:min(len(again), at+5)] {
		t.Log("+ ", line)
	}
	return false
}

var before = flag.Int("sim.before", 10, "how many lines before a difference to print")

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
