package quorumtest

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// Stop makes master i, counted from 0, unreachable: its connections are cut and new ones are
// refused. It does nothing to a master that is stopped. With more than a minority stopped, the
// masters grant nothing ([quorum.ErrUnavailable]), and locks are lost when their leases end: see
// [Masters.FastForward].
func (m *Masters) Stop(i int) {
	m.tb.Helper()
	m.checkMaster("stop", i)
	m.stopsMu.Lock()
	defer m.stopsMu.Unlock()
	if m.stops[i] == nil {
		m.stops[i] = m.world.Unplug(i)
	}
}

// Start ends [Masters.Stop] for master i. The master has forgotten nothing, so it needs no
// quarantine; leases have gone on running. Lockers find it within half a second. Start does nothing
// to a master that runs.
func (m *Masters) Start(i int) {
	m.tb.Helper()
	m.checkMaster("start", i)
	m.stopsMu.Lock()
	defer m.stopsMu.Unlock()
	if m.stops[i] != nil {
		m.stops[i]()
		m.stops[i] = nil
	}
}

// Forget restarts master i without its data, as after a crash of a server that keeps nothing on
// disk. It then is in quarantine for one max lease, which sleeping in a bubble, or
// [Masters.FastForward], lets pass.
func (m *Masters) Forget(i int) {
	m.tb.Helper()
	m.checkMaster("forget", i)
	m.world.Masters[i].Crash(fakeredis.Nothing)
	m.world.Masters[i].Start()
}

func (m *Masters) checkMaster(action string, i int) {
	m.tb.Helper()
	m.checkBubble()
	if n := len(m.addresses); i < 0 || i >= n {
		m.tb.Fatalf("quorumtest: %s master %d: there are %d, counted from 0", action, i, n)
	}
}

// FastForward lets d pass at once, for the masters and for [Masters.Clock], as if all processes but the masters had been
// paused for d. No renewal reaches a master meanwhile. If d is the lease or more, a lock is lost: Valid returns false when
// FastForward returns, the context ends with [quorum.ErrLost], and the names are free. If d is less than half the lease, a
// lock that is renewed is kept, unless it has not been renewed since the last FastForward. The same goes for the locks of
// [Masters.HoldElsewhere].
//
// So FastForward by a lease loses every lock of a service; the test needs no handle. It also ends the leases of a
// locker that was closed while it held locks, as if its process had crashed.
//
// A locker with another clock does not notice, and believes that it holds what others are granted.
func (m *Masters) FastForward(d time.Duration) {
	m.tb.Helper()
	m.checkBubble()
	if d < 0 {
		m.tb.Fatalf("quorumtest: fast-forward by %v: time does not go back", d)
	}
	m.world.Leap(d)
	time.Sleep(time.Millisecond) // a key is still there in the millisecond in which it expires
}
