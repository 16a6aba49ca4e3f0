package quorumtest

import "time"

// Stop makes master i, counted from 0, unreachable: its connections are cut and new ones are
// refused. It does nothing to a master that is stopped. With more than a minority stopped, the
// masters grant nothing ([quorum.ErrUnavailable]), and locks are lost when their leases end: see
// [Masters.FastForward].
func (m *Masters) Stop(i int) {
	m.tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkLocked("stop", i)
	if m.stopped[i] {
		return
	}
	if err := m.fleet.Masters[i].CutOff(); err != nil {
		m.tb.Fatalf("quorumtest: %v", err)
	}
	m.stopped[i] = true
}

// Start ends [Masters.Stop] for master i. The master has forgotten nothing, so it needs no
// quarantine; leases have gone on running. Lockers find it within half a second. Start does nothing
// to a master that runs.
func (m *Masters) Start(i int) {
	m.tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkLocked("start", i)
	if !m.stopped[i] {
		return
	}
	if err := m.fleet.Masters[i].Reconnect(); err != nil {
		m.tb.Fatalf("quorumtest: %v", err)
	}
	delete(m.stopped, i)
}

func (m *Masters) checkLocked(action string, i int) {
	m.tb.Helper()
	if i < 0 || i >= len(m.fleet.Masters) {
		m.tb.Fatalf("quorumtest: %s master %d: there are %d, counted from 0", action, i, len(m.fleet.Masters))
	}
}

// FastForward lets d pass at once, for the masters and for [Masters.Clock], as if all processes but
// the masters had been paused for d. No renewal reaches a master meanwhile. If d is the lease or
// more, a lock is lost: Valid returns false when FastForward returns, the context ends with
// [quorum.ErrLost], and the names are free. If d is less than half the lease, a lock that is
// renewed is kept. The same goes for the locks of [Masters.HoldElsewhere].
//
// So FastForward by a lease loses every lock of a service, without its handle. It also ends the
// leases of a locker that was closed while it held locks, like those of a crashed process.
//
// A locker with another clock does not notice, and believes that it holds what others are granted.
func (m *Masters) FastForward(d time.Duration) {
	m.tb.Helper()
	if d < 0 {
		m.tb.Fatalf("quorumtest: fast-forward by %v: time does not go back", d)
	}
	if err := m.fleet.FastForward(d, func() { m.clock.Advance(d) }); err != nil {
		m.tb.Fatalf("quorumtest: %v", err)
	}
}
