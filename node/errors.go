package node

import (
	"errors"
	"fmt"
	"strings"

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
	var reply redis.Error
	if !errors.As(e.Err, &reply) {
		return false
	}
	for _, code := range []string{"WRONGTYPE", "WRONGPASS", "NOAUTH", "NOPERM", "ERR AUTH", "ERR invalid password",
		"ERR Client sent AUTH", "ERR DB index", "ERR invalid DB index", "READONLY", "QUORUMLOCK"} {
		// Redis 6 puts words of its own before an error that was raised in a script.
		if strings.HasPrefix(string(reply), code) ||
			strings.HasPrefix(string(reply), "ERR Error running script") && strings.Contains(string(reply), ": "+code+" ") {
			return true
		}
	}
	return false
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("node: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
