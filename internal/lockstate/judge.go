package lockstate

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/scripts"
)

// The states of a lock.
const (
	Held    = "held"
	Free    = "free"
	Unknown = "unknown" // masters that do not answer, or may have forgotten it, could make the difference
)

// Forever is the time to live of a key that never expires.
const Forever = time.Duration(-1)

// Lock combines the masters' states of a name. Unless it is held, it has no owner, and no readers.
type Lock struct {
	Name     string
	State    string
	Owner    string
	Identity scripts.Identity
	Depth    int
	TTL      time.Duration // at most, unless renewed; or Forever
	Token    uint64        // the highest counter: at least the last token, since names share counters
	// Readers is the least number of readers on enough masters. These need not have a reader in common, since several
	// attempts may be under way: only a question about each reader would tell.
	Readers     int
	WriterWaits bool // a waiting writer keeps new readers back
	Masters     []Master
}

// MayHide reports whether the master may count for an owner that it does not name: it did not answer, or may have
// forgotten.
func (m Master) MayHide() bool {
	return m.Err != nil || m.Owner == "" && m.Readers == 0 && m.Quarantine > 0
}

// Judge returns the lock that need masters make. A lock is free if no owner can be on need masters, not
// even with all the masters that may hide it.
func Judge(name string, masters []Master, need int) Lock {
	lock := Lock{Name: name, State: Free, Masters: masters}
	grants, hiding := map[string][]Master{}, 0
	var read []Master
	for _, m := range masters {
		lock.Token = max(lock.Token, m.Token)
		lock.WriterWaits = lock.WriterWaits || m.Reservation > 0
		switch {
		case m.MayHide():
			hiding++
		case m.Readers > 0:
			read = append(read, m)
		case m.Owner != "":
			grants[m.Owner] = append(grants[m.Owner], m)
		}
	}
	if hiding >= need {
		lock.State = Unknown
	}
	switch {
	case len(read) >= need:
		lock.State, lock.TTL = Held, keptFor(read, need)
		slices.SortFunc(read, func(a, b Master) int { return b.Readers - a.Readers })
		lock.Readers = read[need-1].Readers
		return lock
	case len(read) > 0 && len(read)+hiding >= need:
		lock.State = Unknown
	}
	for owner, by := range grants {
		switch {
		case len(by) >= need:
			lock.State, lock.Owner, lock.Identity, lock.Depth = Held, owner, by[0].Identity, by[0].Depth
			lock.TTL = keptFor(by, need)
			return lock
		case len(by)+hiding >= need:
			lock.State = Unknown
		}
	}
	return lock
}

// keptFor returns how long need masters keep their grants at most.
func keptFor(grants []Master, need int) time.Duration {
	ttls := []time.Duration{}
	for _, m := range grants {
		if m.TTL != Forever {
			ttls = append(ttls, m.TTL)
		}
	}
	endless := len(grants) - len(ttls)
	if endless >= need {
		return Forever
	}
	return quorate.Largest(need-endless, ttls)
}
