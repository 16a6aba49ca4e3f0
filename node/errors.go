package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

var (
	// ErrInvalid: an argument, an option or a URL is not valid; the message says which and why.
	ErrInvalid = errors.New("invalid argument")
	// ErrClosed: the node, or the locker above it, was closed.
	ErrClosed = pipeline.ErrClosed
	// ErrDown: an earlier call or probe found that the node does not answer or refuses connections. It is
	// probed in the background; this call was not sent. [Error.Permanent] reports a reason that does not
	// pass by itself, such as a wrong password.
	ErrDown = pipeline.ErrDown
	// ErrTimeout: the node did not answer in time. It may still carry out the call.
	ErrTimeout = redisconn.ErrTimeout
	// ErrReplica: the server is a replica, which may lack what its master granted. With [WithFailover] the node
	// waits until it is a master.
	ErrReplica = errors.New("is a replica, not a master")
	// ErrEvicts: the server may evict keys, and with them locks, when memory is short.
	ErrEvicts = errors.New("may evict locks")
	// ErrScripts: the server runs no Lua scripts. They are switched off, or the commands are renamed.
	ErrScripts = errors.New("runs no Lua scripts")
	// ErrMaxLease: the master's other clients have another max lease than this client (see [WithMaxLease]).
	ErrMaxLease = membership.ErrMaxLease
	// ErrFailover: the master's other clients count another number of replicas than this client (see [WithFailover]).
	ErrFailover = membership.ErrFailover
	// ErrMembership: the server accepts clients with another list of masters, not this client's.
	// The message contains both lists.
	ErrMembership = membership.ErrDiffers
)

// Error is a failure of one node.
type Error struct {
	Node string // its name, never with a password
	Op   string // "connect", "acquire", "renew", "check", ...
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("node %s: %s: %s", e.Node, e.Op, e.text())
}

// text returns what the error says of the node.
func (e *Error) text() string {
	text := arguments.ReplaceAllString(inScript.ReplaceAllString(e.Err.Error(), ""), "$1")
	if redisconn.IsServerError(e.Err) && !redisconn.ForbidsUser(e.Err) && !redisconn.LacksCommand(e.Err) {
		text = tried.ReplaceAllString(text, "") // the server refuses others as well
	}
	if why, isDown := strings.CutPrefix(text, ErrDown.Error()+": "); isDown && e.Permanent() {
		text = "refused: " + why // the server answers
	}
	if e.Op == "connect" && errors.Is(e.Err, ErrTimeout) {
		text += " (quorumlock check may show why)"
	}
	if redisconn.HasCode(e.Err, "WRONGTYPE") && !strings.Contains(text, scripts.MarkerKey) {
		text += " (another client's lock, redsync's perhaps, is at this key)"
	}
	if e.Op == "connect" && errors.Is(e.Err, io.EOF) {
		text += " (it hung up at the first commands: a proxy, or no Redis server?)"
	}
	return plain.Text(text + e.missing()) // servers' words are in it
}

// missing returns what the server lacks, or forbids the user, if the server does not say it.
func (e *Error) missing() string {
	said, prefix := e.Err.Error(), scripts.MemberPrefix(e.Node)
	isForbidden := redisconn.ForbidsUser(e.Err)
	switch {
	case isForbidden && prefix != "" && (strings.Contains(said, "channel") || strings.Contains(said, " key")):
		return " (the user needs the keys and channels " + prefix + "*)"
	case isForbidden && strings.Contains(said, "channel"):
		return " (the user needs the channels redisson_lock__channel* and quorumlock:seal)"
	case isForbidden && strings.Contains(said, " key"):
		return " (the user needs the keys quorumlock:* and the names of its locks)"
	case !isForbidden && !redisconn.LacksCommand(e.Err):
		return ""
	}
	if at := placeInScript.FindStringSubmatch(said); at != nil {
		line, _ := strconv.Atoi(at[2])
		if commands := scripts.CommandsAt(at[1], line); len(commands) > 0 {
			return " (" + strings.Join(commands, " or ") + ")"
		}
	}
	return ""
}

// placeInScript is a script's hash and the line in which it failed, as Redis 6 has it, and later versions.
var placeInScript = regexp.MustCompile(`(?:script: |call to f_)([0-9a-f]{40})(?:, on |\): )@user_script:(\d+)`)

// inScript is what Redis adds to an error inside a script: the script's hash and a line, before the
// error in Redis 6 and behind it since.
var inScript = regexp.MustCompile(`ERR Error running script \(call to f_[0-9a-f]{40}\): @user_script:\d+: (@user_script: ?\d+: )?-?` +
	`| script: [0-9a-f]{40}, on @user_script:\d+\.?`)

// tried is the command that a script names when the server refuses it.
var tried = regexp.MustCompile(` \([A-Z]+\)$`)

// arguments is what Redis repeats of a command that it does not know.
var arguments = regexp.MustCompile(`(?s)(unknown command [^,]*), with args beginning with: .*`)

func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether a retry fails until the server or the settings are changed: wrong
// credentials (but see [WithCredentials]), a replica (but see [WithFailover]), a key of another type, another max lease,
// number of replicas or list of masters, scripts or commands that are switched off.
func (e *Error) Permanent() bool {
	if errors.As(e.Err, new(passes)) {
		return false
	}
	lasting := []error{ErrInvalid, ErrClosed, ErrReplica, ErrEvicts, ErrScripts, ErrMaxLease, ErrFailover, ErrMembership}
	return slices.ContainsFunc(lasting, func(target error) bool { return errors.Is(e.Err, target) }) || redisconn.Lasts(e.Err)
}

// Code returns a word for the error, one of a few: "timeout", "canceled", "closed", "replica", "not_replicated",
// "evicts", "scripts", "max_lease", "failover", "membership", "invalid", the code of a server's error ("NOPERM", "OOM",
// ..., and "ERR" for any other), or "connection" for all other errors: most are a connection's, but some are package
// quorum's, of what a node has answered (it had forgotten the lock, for example).
func (e *Error) Code() string {
	for _, c := range []struct {
		err  error
		word string
	}{
		{ErrTimeout, "timeout"}, {ErrClosed, "closed"}, {ErrReplica, "replica"}, {ErrEvicts, "evicts"}, {ErrScripts, "scripts"},
		{ErrMaxLease, "max_lease"}, {ErrFailover, "failover"}, {redisconn.ErrNotReplicated, "not_replicated"},
		{ErrMembership, "membership"}, {ErrInvalid, "invalid"},
	} {
		if errors.Is(e.Err, c.err) {
			return c.word
		}
	}
	other := "connection"
	if isContextError(e.Err) {
		other = "canceled"
	}
	return cmp.Or(redisconn.Code(e.Err), other)
}

// scriptError says of the error of a command that runs or loads a script that the server runs none.
func scriptError(err error) error {
	if redisconn.LacksEngine(err) || redisconn.HasCode(err, "ERR unknown command") {
		return fmt.Errorf("%w: %w", ErrScripts, err)
	}
	return err
}

// passes is a refusal that may pass by itself, as others of its kind do not.
type passes struct{ error }

func (e passes) Unwrap() error { return e.error }

// Is has a failover noticed soon: held locks wait for it. Refused credentials are tried rarely in any case.
func (e passes) Is(target error) bool { return target == redisconn.ErrNoMaster }

func invalidf(format string, args ...any) error {
	return fmt.Errorf("node: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
