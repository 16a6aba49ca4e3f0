package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// eager is a clock whose timers fire twice whenever they are set again, a moment later.
type eager struct {
	clock.Clock
	returned *atomic.Int64 // calls of timers' functions
}

type eagerTimer struct {
	clock.Timer
	fire func()
}

func (c eager) AfterFunc(d time.Duration, f func()) clock.Timer {
	return eagerTimer{c.Clock.AfterFunc(d, f), func() { f(); c.returned.Add(1) }}
}

func (t eagerTimer) Reset(d time.Duration) bool {
	time.AfterFunc(1, t.fire)
	time.AfterFunc(1, t.fire)
	return t.Timer.Reset(d)
}

// The timer of a question about slots may fire before its first signal was read: its function returns all the same.
func TestATimerOfSlotsThatFiresAgain(t *testing.T) {
	var returned atomic.Int64
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		c.Engine.Clock = eager{c.Engine.Clock, &returned}
		_, _, answered := c.AskSlots(t.Context(), SlotsQuestion{Name: "s", Call: scripts.Slots("s", 3)}, 0)
		testkit.Pass(time.Millisecond)
		testkit.Check(t, answered && returned.Load() == 2, "answered %v, %d signals", answered, returned.Load())
	})
}
