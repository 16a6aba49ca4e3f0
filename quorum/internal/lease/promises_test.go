package lease_test

import "github.com/quorumlock/quorumlock/quorum/internal/lease"

// promise is one that a step broke.
type promise uint8

const (
	kept promise = iota
	twoHold
	lateLock
	twiceCounted
	tokenFell
	counterFell
	asksAfterRelease
	leftBehind
	wrongDepth
	keepsOut
	shortHold
	longHold
	revived
	forgotten
	twiceTaken
	gotIn
	lostInVain
	spoiled
	goesOn
)

var promises = [...]string{
	twoHold:          "two hold the lock",
	lateLock:         "a lock is handed out that is over",
	twiceCounted:     "one process is counted twice",
	tokenFell:        "the token is not greater",
	counterFell:      "a script lowers a counter",
	asksAfterRelease: "a request for a grant follows the release",
	leftBehind:       "a released lease is left on a master",
	wrongDepth:       "a master has another depth than the holder",
	keepsOut:         "a lock that was downgraded keeps readers out",
	shortHold:        "the lock is released before the end of its min hold",
	longHold:         "the lock outlives its bound",
	revived:          "a lock that was over is valid again",
	forgotten:        "the machine asks to be called after its deadline",
	twiceTaken:       "a ticket works twice",
	gotIn:            "another gets in between handing over and taking over",
	lostInVain:       "a lock is lost that the masters keep",
	spoiled:          "a script deletes what is no lock",
	goesOn:           "the contexts do not end before the deadline",
}

// check names the promise that a state breaks.
func (w *world) check(s *state) promise {
	if s.broken != 0 {
		return promise(s.broken)
	}
	if w.clock != lying && w.bothHold(s) {
		return twoHold
	}
	switch {
	case s.taken > 1 && w.tombstonesLast():
		return twiceTaken
	case s.left > 0 && w.getsIn(s):
		return gotIn
	}
	for c := range w.clients() {
		for number := range int(w.attempts[c]) {
			if p := w.checkMasters(s, c, number); p != kept {
				return p
			}
		}
	}
	return kept
}

// bothHold reports whether two clients hold a name, and not both as readers, or one does while another's
// min hold lasts.
func (w *world) bothHold(s *state) bool {
	var held, read [maxNames]bool
	for o, id := range s.leases {
		if st := &w.ls.states[id]; st.valid || st.keeps {
			for _, name := range w.places[o/maxAttempts] {
				if held[name] || read[name] && !st.reads {
					return true
				}
				held[name], read[name] = held[name] || !st.reads, read[name] || st.reads
			}
		}
	}
	return false
}

// tombstonesLast reports whether no request arrives after the tombstone that bars its owner has ended.
func (w *world) tombstonesLast() bool {
	return w.clock == still || w.clock == honest && w.deaths == 0
}

// getsIn reports whether a client without the ticket holds the lock before one with it has begun.
func (w *world) getsIn(s *state) bool {
	holds := false
	for o := 1; o < owners; o++ {
		st := &w.ls.states[s.leases[o]]
		if w.takes[o/maxAttempts] && st.begun {
			return false
		}
		holds = holds || st.valid
	}
	return holds
}

// checkMasters compares masters with a lease of which nothing is on its way.
func (w *world) checkMasters(s *state, c, number int) promise {
	o := ownerOf(c, number)
	st := &w.ls.states[s.leases[o]]
	if !st.over && !(st.phase == lease.Held && (w.depths > 1 || w.lowers)) || !st.begun {
		return kept
	}
	if w.fails > 0 || s.restarts > 0 || w.clock != still && s.deaths > 0 {
		return kept
	}
	for i := range s.links {
		if !s.links[i][c].isIdle() {
			return kept
		}
	}
	for i := range s.masters {
		switch at := &w.ms.states[s.masters[w.processOf(i)]]; {
		case at.owners>>o&1 == 0:
		case st.over && w.sharesOwner(s, c): // by a mutant
		case st.over && w.clock != lying && s.orphaned>>o&1 == 0:
			return leftBehind
		case !st.over && st.reads && s.deaths == 0 && s.forgets == 0 && at.depths[o] != anyDepth && st.repairs>>i&1 == 0:
			return keepsOut
		case !st.over && s.deaths == 0 && at.depths[o] != anyDepth && int(at.depths[o]) != st.depth && !st.reads:
			return wrongDepth
		}
	}
	return kept
}

// sharesOwner reports whether a lease that is over has the same owner as one that isn't.
func (w *world) sharesOwner(s *state, c int) bool {
	one, other := ownerOf(c, 0), ownerOf(c, 1)
	if w.ms.owners[one] != w.ms.owners[other] {
		return false
	}
	st := &w.ls.states[s.leases[other]]
	return st.begun && !st.over
}

// acquires notes a lock that was acquired.
func (w *world) acquires(s *state, c, o int) {
	if !w.tokens {
		return
	}
	token := uint8(w.ls.states[s.leases[o]].token)
	for _, name := range w.places[c] {
		bit, mask := &s.acquired[name][token/8], uint8(1)<<(token%8)
		taken, highest := *bit, s.highest[name]
		if w.reads[c] { // readers at once may have the same token
			taken, highest = s.writes[name][token/8], s.written[name]
		} else {
			s.writes[name][token/8] |= mask
			s.written[name] = max(s.written[name], token)
		}
		if token <= s.floors[o][name] || taken&mask != 0 || w.clock != lying && token <= highest {
			s.broken = uint8(tokenFell)
		}
		*bit |= mask
		s.highest[name] = max(s.highest[name], token)
	}
	s.floors[o] = [maxNames]uint8{}
}
