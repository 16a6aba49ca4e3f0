package redisconn

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/gomodule/redigo/redis"
)

// IsServerError reports whether err is an error reply, which leaves the connection usable.
func IsServerError(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// HasCode reports whether err is an error reply that begins with one of the codes, as a whole word.
func HasCode(err error, codes ...string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	// Redis 6 puts a prefix before an error raised in a script, and a dash before an error of its own there.
	isOfScript := strings.HasPrefix(string(reply), "ERR Error running script")
	return begins(reply, codes...) || isOfScript && slices.ContainsFunc(codes, func(code string) bool {
		return strings.Contains(string(reply), ": "+code+" ") || strings.Contains(string(reply), ": -"+code+" ")
	})
}

func begins(reply redis.Error, codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool {
		rest, found := strings.CutPrefix(string(reply), code)
		return found && (rest == "" || !unicode.IsLetter(rune(rest[0])))
	})
}

// RefusesAll reports whether the server refuses every command for a while.
func RefusesAll(err error) bool { return HasCode(err, "LOADING", "BUSY", "MASTERDOWN") }

// NotAMaster reports whether the server says that it is no master, or not yet: it was made a replica, whose link is
// down perhaps, or loads the data of its master.
func NotAMaster(err error) bool { return HasCode(err, "READONLY", "MASTERDOWN", "LOADING") }

// RefusesWrites reports whether the server refuses every write for a while: it has no memory, no
// disk, or too few replicas.
func RefusesWrites(err error) bool { return HasCode(err, "OOM", "MISCONF", "NOREPLICAS") }

// RefusesCredentials reports whether the server refuses the user name or the password, or lacks them.
func RefusesCredentials(err error) bool {
	return HasCode(err, "WRONGPASS", "NOAUTH", "ERR AUTH", "ERR invalid password", "ERR Client sent AUTH",
		"ERR Protocol error: unauthenticated") // commands too long for a client that has not logged in
}

// ForbidsUser reports whether the user lacks a permission, also one that is missing inside a script: as worded by Redis
// 7.0, by 7.2 and later, and by 6.
func ForbidsUser(err error) bool {
	return HasCode(err, "NOPERM", "ERR The user executing the script", "ERR ACL failure in script",
		"The user executing the script")
}

// RefusesKeys reports whether err may concern the keys of a call: the same call with other keys may
// succeed. An error by which a server refuses every command, or every write, does not.
func RefusesKeys(err error) bool {
	return IsServerError(err) && !RefusesAll(err) && !RefusesWrites(err) &&
		!HasCode(err, "NOAUTH", "READONLY", "NOSCRIPT")
}

// ProvesNothingDone reports whether an error reply to a request for a grant proves that nothing was
// carried out.
//
//   - The first group of codes comes before the script runs.
//   - The second comes from the script's reads, all of which precede its first write.
//   - The third, from Redis 7 on, comes before a script's first write or not at all. Redis 6 may
//     send it later, but in other words.
//
// A permission that is missing inside the script may be reported after a write. Such an error names
// the script.
func ProvesNothingDone(err error) bool {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	if begins(reply, "NOPERM") {
		return !strings.Contains(string(reply), "script")
	}
	return begins(reply, "NOAUTH", "LOADING", "BUSY", "MASTERDOWN",
		"WRONGTYPE", "QUORUMLOCK",
		"OOM", "READONLY", "MISCONF", "NOREPLICAS")
}
