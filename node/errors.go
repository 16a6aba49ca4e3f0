package node

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

var (
	// ErrInvalid: an argument, an option or a URL is not valid; the message says which and why.
	ErrInvalid = errors.New("invalid argument")
	// ErrClosed: the node, or the locker above it, was closed.
	ErrClosed = pipeline.ErrClosed
	// ErrDown: the node did not answer or refused the connection before. It is probed in the
	// background, and the call was not sent. [Error.Permanent] reports a reason that does not pass
	// by itself, such as a wrong password.
	ErrDown = pipeline.ErrDown
	// ErrTimeout: the node did not answer in time. It may still carry out the call.
	ErrTimeout = redisconn.ErrTimeout
	// ErrReplica: the server is a replica, which may lack what its master granted.
	ErrReplica = errors.New("is a replica, not a master")
	// ErrEvicts: the server may evict keys, and with them locks, when memory is short.
	ErrEvicts = errors.New("may evict locks")
	// ErrMaxLease: the server's marker carries another max lease than this client's (see
	// [WithMaxLease]).
	ErrMaxLease = membership.ErrMaxLease
	// ErrMembership: the server lets in clients with another list of masters than this client's.
	// The message has both lists.
	ErrMembership = membership.ErrDiffers
)

// Error is a failure of one node.
type Error struct {
	Node string // its name, never with a password
	Op   string // "connect", "acquire", "renew", "check", ...
	Err  error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("node %s: %s: %v", e.Node, e.Op, e.Err)
	if redisconn.HasCode(e.Err, "WRONGTYPE") && e.Op != "connect" { // there it is the marker
		text += " (another client's lock, redsync's perhaps, is at this key)"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether a retry fails until the server or the settings are changed: wrong
// credentials (but see [WithCredentials]), a replica, a key of another type, another max lease,
// another list of masters.
func (e *Error) Permanent() bool {
	if errors.As(e.Err, new(credentialsRefused)) {
		return false
	}
	for _, target := range []error{ErrInvalid, ErrClosed, ErrReplica, ErrEvicts, ErrMaxLease, ErrMembership} {
		if errors.Is(e.Err, target) {
			return true
		}
	}
	return refusesCredentials(e.Err) || redisconn.HasCode(e.Err, "WRONGTYPE", "NOPERM", "ERR DB index",
		"ERR invalid DB index", "READONLY", "QUORUMLOCK",
		// A permission that is missing inside a script, as worded by Redis 7.0, by 7.2 and later,
		// and by 6.
		"ERR The user executing the script", "ERR ACL failure in script", "The user executing the script")
}

func refusesCredentials(err error) bool {
	return redisconn.HasCode(err, "WRONGPASS", "NOAUTH", "ERR AUTH", "ERR invalid password", "ERR Client sent AUTH")
}

// credentialsRefused is the server's refusal of what [WithCredentials] told. The next connection
// asks again.
type credentialsRefused struct{ error }

func (e credentialsRefused) Unwrap() error { return e.error }

func invalidf(format string, args ...any) error {
	return fmt.Errorf("node: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
