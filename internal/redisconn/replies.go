package redisconn

import (
	"errors"
	"strings"
	"unicode"

	"github.com/gomodule/redigo/redis"
)

// IsServerError tells an error reply of the server's: the connection is as good as before.
func IsServerError(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// HasCode tells an error reply of the server's that begins with one of the codes, as a whole word.
func HasCode(err error, codes ...string) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	for _, code := range codes {
		// Redis 6 puts words of its own before an error that was raised in a script, and a dash where it raised it.
		if begins(reply, code) || begins(reply, "ERR Error running script") &&
			(strings.Contains(string(reply), ": "+code+" ") || strings.Contains(string(reply), ": -"+code+" ")) {
			return true
		}
	}
	return false
}

func begins(reply redis.Error, code string) bool {
	rest, found := strings.CutPrefix(string(reply), code)
	return found && (rest == "" || !unicode.IsLetter(rune(rest[0])))
}

// RefusesAll tells an error in which a server refuses everything that is asked of it, for a while.
func RefusesAll(err error) bool { return HasCode(err, "LOADING", "BUSY", "MASTERDOWN") }

// RefusesWrites tells an error in which a server refuses what it would have to write, for a while: it has no memory, no disk, or too
// few replicas.
func RefusesWrites(err error) bool { return HasCode(err, "OOM", "MISCONF", "NOREPLICAS") }

// RefusesKeys tells an error that may be about the keys of a call: the same call with other keys may succeed. Errors in which a
// server refuses everything, or all writes, are none.
func RefusesKeys(err error) bool {
	return IsServerError(err) && !RefusesAll(err) && !RefusesWrites(err) && !HasCode(err, "NOAUTH", "READONLY", "NOSCRIPT")
}

// ProvesNothingDone tells an error reply to a request for a grant that proves that nothing was carried out. The first group comes
// before the script runs. The second comes from the script's reads, all of which come before its first write. The third, from
// Redis 7 on, comes before a script's first write or not at all; Redis 6, which words it otherwise, is not so strict.
//
// A permission that is missing inside the script, for one command, may have come after a write: it names the script.
func ProvesNothingDone(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	for _, code := range []string{"NOPERM", "NOAUTH", "LOADING", "BUSY", "MASTERDOWN",
		"WRONGTYPE", "QUORUMLOCK",
		"OOM", "READONLY", "MISCONF", "NOREPLICAS"} {
		if begins(reply, code) {
			return code != "NOPERM" || !strings.Contains(string(reply), "script")
		}
	}
	return false
}
