package redisconn

import (
	"errors"
	"strings"
	"unicode"

	"github.com/gomodule/redigo/redis"
)

// meaning is what an error reply says.
type meaning uint8

const (
	refusesAll         meaning = 1 << iota // the server refuses every command, for a while
	refusesWrites                          // it refuses every write, for a while: it has no memory, no disk, or too few replicas
	notAMaster                             // it is no master, or not yet
	refusesCredentials                     // it refuses the user name or the password, or lacks them
	forbidsUser                            // the user lacks a permission
	lacksCommand                           // a command is renamed
	lacksEngine                            // the module for scripts is not loaded
	lasts                                  // a retry fails until the server, its data or the settings are changed
)

// replies are the errors that the library tells apart, by how they begin: one row for each. docs/messages.md has them for
// operators.
var replies = []struct {
	code  string
	means meaning
	// Whether the reply to a request for a grant proves that nothing was carried out: it comes before the script runs, or
	// from the script's reads, all of which precede its first write. Redis 7 sends OOM, READONLY, MISCONF and NOREPLICAS before
	// a script's first write or not at all; Redis 6 may send them later, but in other words.
	nothingDone bool
}{
	{"WRONGTYPE", lasts, true},
	{"QUORUMLOCK", lasts, true},

	{"LOADING", refusesAll | notAMaster, true},
	{"BUSY", refusesAll, true},
	{"MASTERDOWN", refusesAll | notAMaster, true},
	{"OOM", refusesWrites, true},
	{"MISCONF", refusesWrites, true},
	{"NOREPLICAS", refusesWrites, true},
	{"READONLY", notAMaster | lasts, true},

	{"NOAUTH", refusesCredentials | lasts, true},
	{"WRONGPASS", refusesCredentials | lasts, false},
	{"ERR AUTH", refusesCredentials | lasts, false},
	{"ERR invalid password", refusesCredentials | lasts, false},
	{"ERR Client sent AUTH", refusesCredentials | lasts, false},
	{"ERR Protocol error: unauthenticated", refusesCredentials | lasts, false}, // commands too long for a client that has not logged in

	// A permission that is missing inside a script, as worded by Redis 7.0, by 7.2 and later, and by 6, may be reported
	// after a write. Such an error names the script.
	{"NOPERM", forbidsUser | lasts, true},
	{"ERR The user executing the script", forbidsUser | lasts, false},
	{"ERR ACL failure in script", forbidsUser | lasts, false},
	{"The user executing the script", forbidsUser | lasts, false},
	{"DENIED", lasts, false},

	// By itself, and as scripts call it: by Redis 7, by Valkey, and by Redis 6.
	{"ERR unknown command", lacksCommand | lasts, false},
	{"ERR Unknown Redis command called from script", lacksCommand | lasts, false},
	{"ERR Unknown command called from script", lacksCommand | lasts, false},
	{"Unknown Redis command called from Lua script", lacksCommand | lasts, false},
	{"ERR Could not find scripting engine", lacksEngine | lasts, false},
	{"Could not find scripting engine", lacksEngine | lasts, false},

	{"ERR DB index", lasts, false},
	{"ERR invalid DB index", lasts, false},
	{"NOSCRIPT", 0, false},
	{"CLUSTERDOWN", 0, false},
	{"MOVED", 0, false},
}

// means reports whether err is an error reply that means one of these.
func means(err error, what meaning) bool {
	for _, r := range replies {
		if r.means&what != 0 && HasCode(err, r.code) {
			return true
		}
	}
	return false
}

// Code returns the first word of an error reply: "ERR" if the library does not know it, "" if err is none.
func Code(err error) string {
	if !IsServerError(err) {
		return ""
	}
	for _, r := range replies {
		if !strings.Contains(r.code, " ") && HasCode(err, r.code) {
			return r.code
		}
	}
	return "ERR"
}

// IsServerError reports whether err is an error reply, which leaves the connection usable.
func IsServerError(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// HasCode reports whether err is an error reply that begins with the code, as a whole word.
func HasCode(err error, code string) bool {
	reply, _ := errors.AsType[redis.Error](err)
	// Redis 6 puts a prefix before an error raised in a script, and a dash before an error of its own there.
	isOfScript := strings.HasPrefix(string(reply), "ERR Error running script")
	return begins(reply, code) || isOfScript &&
		(strings.Contains(string(reply), ": "+code+" ") || strings.Contains(string(reply), ": -"+code+" "))
}

func begins(reply redis.Error, code string) bool {
	rest, found := strings.CutPrefix(string(reply), code)
	return found && (rest == "" || !unicode.IsLetter(rune(rest[0])))
}

// Lasts reports whether a retry fails until the server, its data or the settings are changed.
func Lasts(err error) bool { return means(err, lasts) }

// RefusesAll reports whether the server refuses every command for a while.
func RefusesAll(err error) bool { return means(err, refusesAll) }

// NotAMaster reports whether the server says that it is no master, or not yet: it was made a replica, whose link is
// down perhaps, or loads the data of its master.
func NotAMaster(err error) bool { return means(err, notAMaster) }

// RefusesWrites reports whether the server refuses every write for a while: it has no memory, no
// disk, or too few replicas.
func RefusesWrites(err error) bool { return means(err, refusesWrites) }

// RefusesCredentials reports whether the server refuses the user name or the password, or lacks them.
func RefusesCredentials(err error) bool { return means(err, refusesCredentials) }

// ForbidsUser reports whether the user lacks a permission, also one that is missing inside a script.
func ForbidsUser(err error) bool { return means(err, forbidsUser) }

// LacksCommand reports whether a command is renamed, by itself or where a script calls it.
func LacksCommand(err error) bool { return means(err, lacksCommand) }

// LacksEngine reports whether the server's module for scripts is not loaded.
func LacksEngine(err error) bool { return means(err, lacksEngine) }

// RefusesKeys reports whether err may concern the keys of a call: the same call with other keys may
// succeed. An error by which a server refuses every command, or every write, does not.
func RefusesKeys(err error) bool {
	return IsServerError(err) && !means(err, refusesAll|refusesWrites|notAMaster) && !HasCode(err, "NOAUTH") && !HasCode(err, "NOSCRIPT")
}

// ProvesNothingDone reports whether an error reply to a request for a grant proves that nothing was
// carried out.
func ProvesNothingDone(err error) bool {
	reply, _ := errors.AsType[redis.Error](err)
	if begins(reply, "NOPERM") && strings.Contains(string(reply), "script") {
		return false
	}
	for _, r := range replies {
		if r.nothingDone && begins(reply, r.code) {
			return true
		}
	}
	return false
}
