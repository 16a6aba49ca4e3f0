package semaphore

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
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

// The timer of a question about slots may fire before its first signal was read: its function returns nevertheless.
func TestATimerOfSlotsThatFiresAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Opened(quorum.New(world.New(t, 3).NewProcess().Nodes(node.WithoutQuarantine()), quorum.Majority))(t)
		s := New(l, "s", 3)
		var returned atomic.Int64
		e := s.engine()
		e.Clock = eager{e.Clock, &returned}
		_, _, answered := s.askNodes(t.Context(), 0)
		time.Sleep(time.Millisecond)
		testkit.Check(t, answered && returned.Load() == 2, "answered %v, %d signals", answered, returned.Load())
	})
}
