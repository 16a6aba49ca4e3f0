package poll

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// On a machine that is on time a stopwatch counts no stall, however long it runs.
func TestAStopwatchOnAMachineThatIsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start()
		defer s.Stop()
		time.Sleep(time.Minute)
		if took, stalled := s.Read(); took != time.Minute || stalled != 0 {
			t.Errorf("after a minute it took %v and stood still for %v", took, stalled)
		}
	})
}

// A beat that came late, and one that has not come, count by how late they are.
func TestStalls(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{beat: 0, 2 * beat: 0, 700 * time.Millisecond: 700*time.Millisecond - 2*beat} {
		if got := lateness(took); got != want {
			t.Errorf("a beat that took %v was late by %v, want %v", took, got, want)
		}
		s := &Stopwatch{began: time.Now(), beatAt: time.Now().Add(-took), stalled: time.Second}
		if _, stalled := s.Read(); stalled < time.Second+want {
			t.Errorf("with a beat of %v under way it stood still for %v", took, stalled-time.Second)
		}
	}
	if got := AtMost(time.Second, 0); got != time.Second {
		t.Errorf("without stalls a second is %v", got)
	}
}

// What the host takes from a virtual machine is waiting, though no thread's own counters show it.
func TestStolen(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"cpu  87040 0 9550 25684 638 0 1470 423 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n": 4230 * time.Millisecond,
		"cpu  1 2 3 4\n": 0,
		"":               0,
	} {
		if got := stolen(stat); got != want {
			t.Errorf("%q: stolen %v, want %v", stat, got, want)
		}
	}
	threads, processors := Waited()
	if t2, p2 := Waited(); t2 < threads || p2 < processors {
		t.Errorf("%v and %v were waited for, and later %v and %v", threads, processors, t2, p2)
	}
}
