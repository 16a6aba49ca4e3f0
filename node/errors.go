package node

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

var (
	// ErrInvalid: an argument, an option or a URL cannot be used; the message says which and why.
	ErrInvalid = errors.New("invalid argument")
	// ErrClosed: the node, or the locker above it, was closed.
	ErrClosed = pipeline.ErrClosed
	// ErrDown: the node did not answer before, or did not let us in, is being probed in the background, and was not asked again.
	// Error.Permanent tells what will not pass by itself, as a wrong password.
	ErrDown = pipeline.ErrDown
	// ErrTimeout: the node did not answer in time. What it was asked may yet be carried out.
	ErrTimeout = redisconn.ErrTimeout
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
	return redisconn.HasCode(e.Err, "WRONGTYPE", "WRONGPASS", "NOAUTH", "NOPERM", "ERR AUTH", "ERR invalid password",
		"ERR Client sent AUTH", "ERR DB index", "ERR invalid DB index", "READONLY", "QUORUMLOCK",
		// A permission that is missing within a script, in Redis 7.0, from 7.2 on, and before.
		"ERR The user executing the script", "ERR ACL failure in script", "The user executing the script")
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("node: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
