package node

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/gomodule/redigo/redis"
)

var (
	// ErrInvalid: an argument, an option or a URL cannot be used; the message says which and why.
	ErrInvalid = errors.New("invalid argument")
	// ErrClosed: the node, or the locker above it, was closed.
	ErrClosed = errors.New("closed")
	// ErrDown: the node did not answer before, or did not let us in, is being probed in the background, and was not asked again.
	// Error.Permanent tells what will not pass by itself, as a wrong password.
	ErrDown = errors.New("down")
	// ErrTimeout: the node did not answer in time. What it was asked may yet be carried out.
	ErrTimeout = errors.New("timed out")
	// ErrReplica: the server is a replica, which forgets what its master never told it.
	ErrReplica = errors.New("is a replica, not a master")
	// ErrEvicts: the server may evict keys when memory is short, and locks with them.
	ErrEvicts = errors.New("may evict locks")
	// ErrMaxLease: the server's marker carries another max lease than this client was given.
	ErrMaxLease = errors.New("max lease differs")
)

// Error is what went wrong with one node.
type Error struct {
	Node string // its name, never with a password
	Op   string // what was asked: "connect", "acquire", "renew", ...
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("node %s: %s: %v", e.Node, e.Op, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Permanent tells that asking again will not help before somebody has changed the server or the settings: wrong
// credentials, a replica, a key of another type, another max lease.
func (e *Error) Permanent() bool {
	for _, target := range []error{ErrInvalid, ErrClosed, ErrReplica, ErrEvicts, ErrMaxLease} {
		if errors.Is(e.Err, target) {
			return true
		}
	}
	return replies(e.Err, "WRONGTYPE", "WRONGPASS", "NOAUTH", "NOPERM", "ERR AUTH", "ERR invalid password",
		"ERR Client sent AUTH", "ERR DB index", "ERR invalid DB index", "READONLY", "QUORUMLOCK",
		// A permission that is missing within a script, in Redis 7.0, from 7.2 on, and before.
		"ERR The user executing the script", "ERR ACL failure in script", "The user executing the script")
}

// OfKeys tells that the server itself refused a call with an error that may be about its keys: the same call with other keys may
// succeed. Errors in which a server refuses everything, or all writes, are not.
func (e *Error) OfKeys() bool {
	return isReply(e.Err) && !errors.Is(e.Err, ErrDown) && !refusesAll(e.Err) && !refusesWrites(e.Err) &&
		!replies(e.Err, "NOAUTH", "READONLY", "NOSCRIPT")
}

// replies tells an error reply of the server's that begins with one of the codes.
func replies(err error, codes ...string) bool {
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

// begins tells that the reply starts with the code, as a whole word.
func begins(reply redis.Error, code string) bool {
	rest, found := strings.CutPrefix(string(reply), code)
	return found && (rest == "" || !unicode.IsLetter(rune(rest[0])))
}

// refusesAll tells an error in which a server refuses everything that is asked of it, for a while.
func refusesAll(err error) bool { return replies(err, "LOADING", "BUSY", "MASTERDOWN") }

// refusesWrites tells an error in which a server refuses what it would have to write, for a while: it has no memory, no disk, or too
// few replicas.
func refusesWrites(err error) bool { return replies(err, "OOM", "MISCONF", "NOREPLICAS") }

// provesNothingDone tells an error reply to a request for a grant that proves that nothing was carried out. The first group comes
// before the script runs. The second comes from the script's reads, all of which come before its first write. The third, from
// Redis 7 on, comes before a script's first write or not at all; Redis 6, which words it otherwise, is not so strict.
//
// A permission that is missing inside the script, for one command, may have come after a write: it names the script.
func provesNothingDone(err error) bool {
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

func invalidf(format string, args ...any) error {
	return fmt.Errorf("node: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
