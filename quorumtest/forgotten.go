package quorumtest

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/scripts"
)

// watch looks every hour of the bubble's time whether one owner has held a key for a day. An Unlock that is forgotten would let time
// pass without end while others wait for it: so the test fails, and the lock is lost. If the test goes on for another day,
// which would hide the failure, the program ends.
type watch struct {
	*Masters
	timer  *time.Timer
	since  map[fakeredis.Holding]time.Time
	failed time.Time
	said   string // the first failure
}

func (m *Masters) watchHolders() {
	w := &watch{Masters: m}
	w.timer = time.AfterFunc(w.day/24, w.look)
	m.tb.Cleanup(func() { w.timer.Stop() })
}

func (w *watch) look() {
	now, since := time.Now(), map[fakeredis.Holding]time.Time{}
	for _, master := range w.world.Masters {
		for _, h := range master.Holdings() {
			began, known := w.since[h]
			if !known {
				began = now
			}
			since[h] = began
		}
	}
	w.since = since
	if w.said != "" && now.Sub(w.failed) >= w.day {
		panic("quorumtest: " + w.tb.Name() + ": " + w.said)
	}
	for h, began := range since {
		if now.Sub(began) < w.day {
			continue
		}
		said := fmt.Sprintf("%q is held for %v of the bubble's time, by %s (owner %s): is an Unlock forgotten?",
			h.Key, w.day, w.holder(h.Owner), h.Owner)
		w.tb.Errorf("quorumtest: %s", said)
		if w.said == "" {
			w.said, w.failed = said, now
		}
		for _, master := range w.world.Masters {
			master.Take([]string{h.Key}, h.Owner, otherOwner) // until the lease ends
		}
	}
	w.timer.Reset(w.day / 24)
}

// holder returns whose locker an owner is of.
func (m *Masters) holder(owner string) string {
	m.mu.Lock()
	isElsewhere := m.elsewhere != nil && m.elsewhere.ID() == scripts.LockerOf(owner)
	m.mu.Unlock()
	if isElsewhere {
		return "Masters.HoldElsewhere"
	}
	m.lockersMu.Lock()
	defer m.lockersMu.Unlock()
	for locker, p := range m.lockers {
		if locker.ID() == scripts.LockerOf(owner) {
			return fmt.Sprintf("locker %d of Masters.Locker", p.Number+1)
		}
	}
	return "a locker with Masters.Options"
}
