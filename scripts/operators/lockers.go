package operators

import (
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// lockersKeys is how many keys one call of Lockers looks at.
const lockersKeys = 1000

// Introduced is a locker that has locked lately.
type Introduced struct {
	Locker   string
	Identity scripts.Identity
	Left     time.Duration // until the key expires, if the locker no longer locks

	digest string
}

// HasList reports whether the locker says that it has that list.
func (i Introduced) HasList(list *scripts.List) bool { return list.HasDigest(i.digest) }

// Age returns how long ago the locker wrote its identity, at most.
func (i Introduced) Age(maxLease time.Duration) time.Duration {
	return max(scripts.IntroducedFor(maxLease)-i.Left, 0)
}

// MayHold reports whether the locker may hold a lock, or take the next one soon: it has locked within the last max
// lease plus the time between two writes of its identity.
func (i Introduced) MayHold(maxLease time.Duration) bool {
	return i.Age(maxLease) <= maxLease+scripts.IntroduceEvery
}

// LockersReply is the reply to Lockers.
type LockersReply struct {
	Cursor string // of the next call; "0" after the last key
	Found  []Introduced
}

// Lockers finds the lockers that have locked lately, among the next 1000 keys from the cursor on, "0"
// for the first. A key that has no identity is left out.
func Lockers(cursor string) scripts.Call {
	return lockersScript.Call(0, scripts.LockerPrefix+"*", cursor, lockersKeys)
}

func parseLockers(v any, _ int) (any, bool) {
	f := scripts.FieldsOf(v)
	reply := &LockersReply{Cursor: f.Text()}
	rows, isNamed := scripts.FieldsOf(f.Next()), true
	for rows.More() {
		key, said, left := rows.Text(), rows.Text(), rows.TTL()
		_, locker, found := strings.Cut(key, scripts.LockerPrefix)
		isNamed = isNamed && found
		if is, list, ok := scripts.ParseIdentity(said); ok && left >= 0 {
			reply.Found = append(reply.Found, Introduced{locker, is, left, list})
		}
	}
	return reply, f.End() && rows.End() && isNamed
}
