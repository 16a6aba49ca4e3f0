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
