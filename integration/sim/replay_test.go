package sim

import (
	"flag"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

var replays = flag.Int("sim.replays", 10, "how many seeds TestReplay plays twice, from 1 on")

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
