package lockstate

import (
	"math"
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

// Judge returns the lock that a quorum of the masters makes. A lock is free if no owner can be on a quorum, not
// even with all the masters that may hide it.
func Judge(name string, masters []Master, quorum quorate.Rule) Lock {
	lock := Lock{Name: name, State: Free, Masters: masters}
	grants := map[string]quorate.Set{}
	var hiding, read quorate.Set
	readers := make([]int, len(masters))
	for i, m := range masters {
		lock.Token = max(lock.Token, m.Token)
		lock.WriterWaits = lock.WriterWaits || m.Reservation > 0
		switch {
		case m.MayHide():
			hiding |= quorate.Of(i)
		case m.Readers > 0:
			read |= quorate.Of(i)
			readers[i] = m.Readers
		case m.Owner != "":
			grants[m.Owner] |= quorate.Of(i)
		}
	}
	if quorum.Enough(hiding) {
		lock.State = Unknown
	}
	switch {
	case quorum.Enough(read):
		lock.State, lock.TTL, lock.Readers = Held, keptFor(masters, read, quorum), quorate.Largest(quorum, readers)
		return lock
	case read != 0 && quorum.Enough(read|hiding):
		lock.State = Unknown
	}
	for _, m := range masters {
		switch by := grants[m.Owner]; {
		case quorum.Enough(by):
			lock.State, lock.Owner, lock.Identity, lock.Depth = Held, m.Owner, m.Identity, m.Depth
			lock.TTL = keptFor(masters, by, quorum)
			return lock
		case by != 0 && quorum.Enough(by|hiding):
			lock.State = Unknown
		}
	}
	return lock
}

// keptFor returns how long a quorum keeps its grants at most, of masters that have granted.
func keptFor(masters []Master, granted quorate.Set, quorum quorate.Rule) time.Duration {
	const forever = time.Duration(math.MaxInt64)
	ttls := make([]time.Duration, len(masters))
	for i, m := range masters {
		switch {
		case granted.Has(i) && m.TTL == Forever:
			ttls[i] = forever
		case granted.Has(i):
			ttls[i] = m.TTL
		}
	}
	if ttl := quorate.Largest(quorum, ttls); ttl != forever {
		return ttl
	}
	return Forever
}
