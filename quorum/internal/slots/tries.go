package slots

import "github.com/quorumlock/quorumlock/clock"

// Tries decides whether a call that waits for no release makes another turn: it knows who refused its attempts. The zero
// Tries has met nobody. It is not safe for concurrent use.
type Tries struct {
	doubt     bool            // an attempt was refused, and nobody was known to hold
	holders   map[string]bool // that refused
	news      bool            // another holder refused in this turn
	full      bool            // by the last turn, in which nothing was attempted
	fullSince clock.Instant   // with full
}

// Begin begins a turn.
func (t *Tries) Begin() { t.news = false }

// Refused records a refused attempt, and who is known to hold; "" for nobody.
func (t *Tries) Refused(holder string) {
	t.full = false
	if holder == "" {
		t.doubt = true
	} else if !t.holders[holder] {
		if t.holders == nil {
			t.holders = map[string]bool{}
		}
		t.holders[holder], t.news = true, true
	}
}

// Full records that too few of size slots are free by the nodes' hints. It reports whether they are held: votes of an
// attempt would be gone by now. isLong reports whether what lasts since then is no attempt.
func (t *Tries) Full(now clock.Instant, size int, isLong func(since clock.Instant) bool) (held bool) {
	if !t.full {
		t.full, t.fullSince = true, now
	}
	return !t.doubt || isLong(t.fullSince) || t.othersWereFaster(size)
}

// Over records the end of a turn in which every attempt was refused; held: by holders. It reports whether the next
// turn would meet the same holders.
func (t *Tries) Over(held bool, size int) bool { return held && !t.news || t.othersWereFaster(size) }

// othersWereFaster reports whether there were more holders than slots: some have released, and others were faster.
func (t *Tries) othersWereFaster(size int) bool { return len(t.holders) > size }
