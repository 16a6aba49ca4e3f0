package scripts

import (
	"regexp"
	"slices"
	"strings"
)

// A deployment may have a prefix, for servers whose users are limited to keys and channels that begin with it. Calls and
// their replies have no prefix: the connection puts it and a colon before each key and channel ([ConnArgs]). A lock's hash
// is then at PREFIX:quorumlock:lock:NAME. So the locks of two deployments on one server, one of them without a prefix
// perhaps, have different keys, whatever their names: each deployment has its own list, quarantine and counters, which say
// nothing of the other's locks.

const (
	lockPrefix = Prefix + "lock:"
	prefixSign = "?prefix=" // in the name of a member
)

var prefixForm = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// ValidPrefix reports whether a text may be a prefix: it needs no escape in patterns of keys. Without a colon, no prefix
// with its colon begins another one's keys.
func ValidPrefix(prefix string) bool {
	return prefixForm.MatchString(prefix) && prefix+":" != Prefix && prefix+":" != ChannelPrefix
}

// isOwnArgument reports whether an argument that is no key begins as a channel does, or as what operators look for. Calls
// tell these by that from other arguments, so no member of a deployment with a prefix has such a name.
func isOwnArgument(text string) bool {
	return strings.HasPrefix(text, ChannelPrefix) || strings.HasPrefix(text, CounterPrefix) || strings.HasPrefix(text, LockerPrefix)
}

// KeyPrefix returns what the keys begin with: the prefix and a colon, or nothing.
func KeyPrefix(prefix string) string {
	if prefix == "" {
		return ""
	}
	return prefix + ":"
}

// HasPrefix reports whether a name ends as the one of a member with a prefix does.
func HasPrefix(name string) bool { return strings.Contains(name, prefixSign) }

// MayHavePrefix reports whether the member of that name may have a prefix.
func MayHavePrefix(name string) bool { return !isOwnArgument(name) }

// MemberPrefix is [KeyPrefix] of the prefix in a member's name.
func MemberPrefix(member string) string {
	_, prefix, _ := strings.Cut(member, prefixSign)
	return KeyPrefix(prefix)
}

// MarkerKeyOf returns the key of a member's marker.
func MarkerKeyOf(member string) string { return MemberPrefix(member) + MarkerKey }

// ownKinds are the kinds of the library's own keys that end with an id.
var ownKinds = []string{"counter", "forced", "lock", "locker", "released", "slot", "trial", "writer"}

// Reserved returns the beginning of a name that is for the library's own keys, with a prefix or without; empty for none.
// Each call that locks asks: a regular expression comes last.
func Reserved(name string) string {
	if strings.HasPrefix(name, Prefix) {
		return Prefix
	}
	prefix, key, _ := strings.Cut(name, ":"+Prefix)
	kind, id, hasID := strings.Cut(key, ":")
	own := key == "marker" || hasID && slices.Contains(ownKinds, kind)
	if !own || !prefixForm.MatchString(prefix) {
		return ""
	}
	return strings.TrimSuffix(name, id)
}

// LockKeyOf returns the key of the lock of that name on a member.
func LockKeyOf(member, name string) string { return lockKey(MemberPrefix(member), name) }

// lockKey returns the key of a lock, or a key of the library's own, with that prefix and its colon.
func lockKey(prefix, name string) string {
	if prefix == "" || strings.HasPrefix(name, Prefix) {
		return prefix + name
	}
	return prefix + lockPrefix + name
}

// withPrefix puts the prefix before the keys and channels of a command.
func withPrefix(prefix string, args []any) {
	if prefix == "" {
		return
	}
	keys := args[1].(int)
	for i, arg := range args[2:] {
		text, _ := arg.(string) // as every key and channel is
		switch {
		case i < keys:
			args[2+i] = lockKey(prefix, text)
		case isOwnArgument(text):
			args[2+i] = prefix + text
		}
	}
}
