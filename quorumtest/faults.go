package quorumtest

import (
	"time"

	"github.com/quorumlock/quorumlock/clock/fakeclock"
)

// Stop makes master i, counted from 0, unreachable: its connections are cut and new ones are
// refused. It does nothing to a master that is stopped. With more than a minority stopped, the
// masters grant nothing ([quorum.ErrUnavailable]), and locks are lost when their leases end: see
// [Masters.FastForward].
func (m *Masters) Stop(i int) {
	m.tb.Helper()
	m.server("stop", i).cut()
}

// Start ends [Masters.Stop] for master i. The master has forgotten nothing, so it needs no
// quarantine; leases have gone on running. Lockers find it within half a second. Start does nothing
// to a master that runs.
func (m *Masters) Start(i int) {
	m.tb.Helper()
	m.server("start", i).reconnect()
}

// Forget restarts master i without its data, as after a crash of a server that keeps nothing on
// disk. It then is in quarantine for one max lease, which sleeping in a bubble, or
// [Masters.FastForward], lets pass.
func (m *Masters) Forget(i int) {
	m.tb.Helper()
	m.server("forget", i).forget()
}

func (m *Masters) server(action string, i int) *server {
	m.tb.Helper()
	m.checkBubble()
	if i < 0 || i >= len(m.servers) {
		m.tb.Fatalf("quorumtest: %s master %d: there are %d, counted from 0", action, i, len(m.servers))
	}
	return m.servers[i]
}

// FastForward lets d pass at once, for the masters and for [Masters.Clock], as if all processes but
// the masters had been paused for d. No renewal reaches a master meanwhile. If d is the lease or
// more, a lock is lost: Valid returns false when FastForward returns, the context ends with
// [quorum.ErrLost], and the names are free. If d is less than half the lease, a lock that is
// renewed is kept. The same goes for the locks of [Masters.HoldElsewhere].
//
// So FastForward by a lease loses every lock of a service, without its handle. It also ends the
// leases of a locker that was closed while it held locks, like a crashed process's.
//
// A locker with another clock does not notice, and believes that it holds what others are granted.
func (m *Masters) FastForward(d time.Duration) {
	m.tb.Helper()
	m.checkBubble()
	if d < 0 {
		m.tb.Fatalf("quorumtest: fast-forward by %v: time does not go back", d)
	}
	m.time.advance(d, func() {
		for _, c := range m.clocks() {
			c.Advance(d)
		}
	})
	time.Sleep(time.Millisecond) // a key is still there in the millisecond in which it expires
}

// clocks returns the clocks of the lockers.
func (m *Masters) clocks() []*fakeclock.Clock {
	m.processesMu.Lock()
	defer m.processesMu.Unlock()
	all := []*fakeclock.Clock{m.clock}
	for _, p := range m.processes {
		if p.clock != m.clock {
			all = append(all, p.clock)
		}
	}
	return all
}
