package operators

import (
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// Force deletes the lock at a name, and bars the owners from new grants for the time ban. If there are readers,
// readers is the highest token counter of all nodes: readers whose token is no higher are barred. The reply is a bool:
// whether there was a lock.
func Force(name scripts.Name, owners []scripts.Owner, readers uint64, ban time.Duration) scripts.Call {
	args := []any{3 + len(owners), name.String(), name.Counter(), name.Forced()}
	for _, o := range owners {
		args = append(args, o.Tombstone())
	}
	return forceScript.Call(append(args, name.Channel(), ban.Milliseconds(), int64(readers))...)
}

// ForceOwner is Force for one owner's lock, whether it writes or reads. It is the release of a reader, which looks
// for a writer too.
func ForceOwner(name scripts.Name, owner scripts.Owner, ban time.Duration) scripts.Call {
	return scripts.ReleaseBarred([]scripts.Name{name}, owner.AsReader(), ban)
}

// ValidOwner reports whether text has the form of an owner's id, as shape.lua has it.
func ValidOwner(text string) bool {
	digits := strings.TrimRight(text, "0123456789")
	return len(digits) > 1 && len(digits) < len(text) && len(text) <= 1024 && digits[len(digits)-1] == ':'
}

func parseForce(v any, _ int) (any, bool) {
	deleted, ok := v.(int64)
	return deleted == 1, ok && (deleted == 0 || deleted == 1)
}
