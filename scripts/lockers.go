package scripts

import (
	"encoding/json"
	"strings"
	"time"
)

// lockersKeys is how many keys one call of Lockers looks at.
const lockersKeys = 1000

// Introduced is a locker that has locked lately.
type Introduced struct {
	Locker   string
	Identity Identity
	Left     time.Duration // until the key ends, if the locker locks no more

	digest string
}

// HasList reports whether the locker says that it has that list.
func (i Introduced) HasList(list *List) bool { return i.digest == list.digest }

// Age returns how long ago the locker wrote its identity, at most.
func (i Introduced) Age(maxLease time.Duration) time.Duration {
	return max(introducedFor(maxLease)-i.Left, 0)
}

// MayHold reports whether the locker may hold a lock, or take the next one soon: it has locked within
// the last max lease, and the time between two writings of its identity.
func (i Introduced) MayHold(maxLease time.Duration) bool {
	return i.Age(maxLease) <= maxLease+IntroduceEvery
}

// LockersReply is the reply to Lockers.
type LockersReply struct {
	Cursor string // of the next call; "0" after the last key
	Found  []Introduced
}

// Lockers finds the lockers that have locked lately, among the next 1000 keys from the cursor on, "0"
// for the first. It is for operators: [All] leaves it out.
func Lockers(cursor string) Call {
	return Call{script: lockersScript, args: []any{lockersScript.sha, 0, lockerPrefix + "*", cursor, lockersKeys}}
}

// ParseLockers reads the reply to Lockers; errors wrap ErrReply. A key that has no identity is left
// out.
func ParseLockers(v any) (LockersReply, error) {
	fields, ok := v.([]any)
	if !ok || len(fields) != 2 {
		return LockersReply{}, malformed(lockersScript, v)
	}
	cursor, ok := text(fields[0])
	rows, ok1 := fields[1].([]any)
	if !ok || !ok1 || len(rows)%3 != 0 {
		return LockersReply{}, malformed(lockersScript, v)
	}
	reply := LockersReply{Cursor: cursor}
	for ; len(rows) > 0; rows = rows[3:] {
		key, ok := text(rows[0])
		said, ok1 := text(rows[1])
		ms, ok2 := rows[2].(int64)
		locker, ok3 := strings.CutPrefix(key, lockerPrefix)
		if !(ok && ok1 && ok2 && ok3) {
			return LockersReply{}, malformed(lockersScript, v)
		}
		left, fits := duration(ms)
		var is introduced
		if fits && json.Unmarshal([]byte(said), &is) == nil && is.PID > 0 {
			reply.Found = append(reply.Found, Introduced{Locker: locker, Identity: is.bounded(), Left: left, digest: is.List})
		}
	}
	return reply, nil
}
