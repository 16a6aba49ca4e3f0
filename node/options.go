package node

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// DefaultTimeout bounds a call's wait for a connection, and for the node's next reply.
	DefaultTimeout = 500 * time.Millisecond
	// DefaultMaxLease is the longest lease of a deployment, and so the length of a quarantine.
	DefaultMaxLease = 30 * time.Second

	maxTimeout = 24 * time.Hour
	maxName    = 255
	maxConns   = 64
	maxCopies  = 16
)

type options struct {
	inside.Settings // of tests

	timeout      time.Duration
	maxLease     time.Duration
	noQuarantine bool
	failover     int // how many replicas may take the master's place
	failoverSet  bool
	prefix       string
	prefixSet    bool
	conns        int
	name         string
	tls          *tls.Config
	credentials  func(context.Context) (user, password string, err error) // nil for the URL's
	dialer       func(ctx context.Context, network, address string) (net.Conn, error)
	clientName   string
	ofURLs       []string // the options given that only [Open] takes
	logger       func() *slog.Logger
	hooks        Hooks
}

// Option configures a [Node].
type Option func(*options)

// WithTimeout bounds a call's wait for a connection, and for the node's next reply (default [DefaultTimeout], 1ms to
// 24h). A node that exceeds it is down until a probe in the background finds that it answers. A probe and package
// quorum/operator connect within d or 5 s, whichever is longer.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithMaxLease sets the longest lease of the deployment (default [DefaultMaxLease], 10ms to a year,
// in whole milliseconds). The masters keep it, and all their clients must use the same: a client
// with another one gets [ErrMaxLease].
func WithMaxLease(d time.Duration) Option { return func(o *options) { o.maxLease = d } }

// WithoutQuarantine lets a master that may have forgotten locks grant at once. Two holders are
// possible when a master restarts: use it for tests and throw-away setups only.
func WithoutQuarantine() Option { return func(o *options) { o.noQuarantine = true } }

// WithFailover makes failovers safe of a master with this many replicas, 1 to 16, any of which may be promoted. The
// node's URL must lead to the one that is the master. A grant or a renewal counts once all replicas have acknowledged
// it, so while one is missing, the node grants and renews nothing. All clients must use the same number. A URL may
// carry it, as ?failover=1. While the URL leads to a replica, calls wait for the failover: [ErrReplica] is not
// [Error.Permanent].
func WithFailover(replicas int) Option {
	return func(o *options) { o.failover, o.failoverSet = replicas, true }
}

// WithPrefix puts the prefix and a colon before all keys and channels, for a user who is limited to these (~team:*,
// &team:*). It is 1 to 64 letters, digits, dots, dashes and underscores, and neither quorumlock nor
// redisson_lock__channel. The hash of a lock is then at PREFIX:quorumlock:lock:NAME. A prefix is as a database: its locks
// exclude no others, whatever their names, and it is part of the node's name, as in a?prefix=team. So all clients must
// use the same. A URL may carry it, as ?prefix=team.
func WithPrefix(prefix string) Option {
	return func(o *options) { o.prefix, o.prefixSet = prefix, true }
}

// WithConns spreads lock names over n connections, 1 to 64 (default 1). Each lock uses one of them.
func WithConns(n int) Option { return func(o *options) { o.conns = n } }

// WithName names the node in errors, logs and reports, and as a member of the clients' list of
// masters: all clients must give a master the same name, or reach it by the same address (default:
// see [Node.Name]). At most 255 bytes of UTF-8 without control characters and without blanks at the ends, and no URL.
// A URL may carry the name, as ?name=a.
//
// A name must be one master's, of all that any of the clients can reach: put the environment into it, as in
// staging-a. The number of a database other than 0 is part of it: [Open] appends it (a/1), and for [New] you
// write it. No other name may end with / and digits, and none has ?prefix= in it ([WithPrefix]). A name of the form
// host:port is an address, with one spelling: see [Node.Name].
func WithName(s string) Option { return func(o *options) { o.name = s } }

// WithTLS sets the TLS configuration of rediss and valkeys URLs. An empty server name means the
// URL's server-name, or the host that is dialed.
func WithTLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// WithCredentials sets a function that returns the user name and the password for each new
// connection, so that a password may rotate, or be a token that expires. It replaces the URL's
// credentials, which must be empty. Existing connections keep those that they were opened with.
//
//   - An empty user name means the default user. An empty password without a user name means no
//     authentication.
//   - ctx ends with the time for connecting ([WithTimeout]), or before. An ask that takes
//     longer fails the connection: it should answer from a cache.
//   - ask is called by several goroutines at once, and for every probe of a node that is down.
//   - An error, a panic or the end of its goroutine fails the connection. The node's error has the text of ask's, which
//     must hold no secret, and wraps it, unless it is of a deadline: the node has not timed out.
//   - Credentials that the server refuses are not [Error.Permanent]: the next connection asks again.
//
// It is for [Open]; [New] refuses it.
func WithCredentials(ask func(ctx context.Context) (user, password string, err error)) Option {
	return func(o *options) {
		o.credentials, o.ofURLs = ask, append(o.ofURLs, "WithCredentials")
	}
}

// WithDialer sets a function that makes the node's connections, for proxies and tunnels. It gets "tcp" and the
// URL's host:port, or "unix" and the socket's path; with Sentinel the address of a sentinel, or of the master that it
// names. With a rediss or valkeys URL the node makes the
// TLS handshake over the connection.
//
//   - ctx ends with the time for connecting ([WithTimeout]), or before.
//   - dial is called by several goroutines at once.
//   - The node closes the connection, and relies on its read and write deadlines. Its methods must not end their goroutine
//     (runtime.Goexit, t.FailNow): after a Read that does, calls of the node wait forever, or until their contexts end.
//   - An error, a panic or the end of its goroutine fails the connection. The node's error wraps dial's.
//
// It is for [Open]; [New] refuses it.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(o *options) { o.dialer, o.ofURLs = dial, append(o.ofURLs, "WithDialer") }
}

// WithClientName sets what CLIENT LIST shows of the node's connections (default "quorumlock"): 1 to
// 255 printable ASCII characters without spaces. A server that forbids CLIENT SETNAME to the user
// shows none.
//
// It is for [Open]; [New] refuses it.
func WithClientName(s string) Option {
	return func(o *options) { o.clientName, o.ofURLs = s, append(o.ofURLs, "WithClientName") }
}

// WithLogger logs the node's changes of state as calls discover them: the node is down or refused, and why; it answers
// again; it may no longer be a master; its quarantine begins or ends; the server refuses a release; it does not accept
// this client's list of masters (default: what [slog.Default] returns when there is something to log). To log nothing,
// use [slog.DiscardHandler].
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.logger = func() *slog.Logger { return l } }
}

// validName reports whether a name may stand in errors, tables and markers.
func validName(name string) bool {
	return len(name) <= maxName && strings.TrimSpace(name) == name && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl) && !strings.Contains(name, "://") // a URL may hold a password
}

// validClientName reports whether CLIENT SETNAME takes a name.
func validClientName(name string) bool {
	isForbidden := func(r rune) bool { return r < '!' || r > '~' }
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, isForbidden)
}

// memberName returns what a master is called in lists: what it was named, the number of a database
// other than 0, and the prefix. A name that ends with another number could be another member's.
func memberName(named string, database int, prefix string) (string, error) {
	number, err := databaseOf(named)
	switch {
	case err != nil:
		return "", err
	case prefix != "" && !scripts.MayHavePrefix(named):
		return "", invalidf("the name %q begins as keys do: give another name (?name=... in the URL, or WithName)", named)
	case number == 0:
		return scripts.MemberName(named, database, prefix), nil
	case number != database:
		return "", invalidf("the name %q is for database %d, and the URL's database is %d: give another name "+
			"(?name=... in the URL, or WithName)", named, number, database)
	}
	return scripts.MemberName(named, 0, prefix), nil
}

// databaseOf returns the number that a name ends with; 0 if it ends with none.
func databaseOf(name string) (int, error) {
	digits := databaseSuffix.FindString(name)
	switch {
	case scripts.HasPrefix(name):
		return 0, invalidf("the name %q has a prefix in it: give that by ?prefix=... in the URL, or WithPrefix", name)
	case digits == "":
		return 0, nil
	}
	number, _ := strconv.ParseInt(digits[1:], 10, 32)
	if scripts.MemberName("", int(number), "") != digits {
		return 0, invalidf("the name %q ends like a database's number, and is none: give another name "+
			"(?name=... in the URL, or WithName)", name)
	}
	return int(number), nil
}

var databaseSuffix = regexp.MustCompile(`/[0-9]+$`)

// runtimeSource is the source of math/rand/v2's top-level functions.
type runtimeSource struct{}

func (runtimeSource) Uint64() uint64 { return rand.Uint64() }

func newOptions(opts []Option) (options, error) {
	o := options{
		timeout:    DefaultTimeout,
		maxLease:   DefaultMaxLease,
		conns:      1,
		clientName: "quorumlock",
		dialer:     (&net.Dialer{KeepAlive: time.Minute}).DialContext,
		logger:     slog.Default, // a program may set that after it has opened its nodes
		Settings:   inside.Settings{Random: runtimeSource{}},
	}
	for _, opt := range opts {
		if opt == nil {
			return o, invalidf("an option is nil") // no number: callers add options of their own
		}
		opt(&o)
	}
	switch {
	case o.timeout < time.Millisecond:
		return o, invalidf("timeout %v is below 1ms", o.timeout)
	case o.timeout > maxTimeout:
		return o, invalidf("timeout %v is above %v", o.timeout, maxTimeout)
	case o.maxLease < 10*time.Millisecond || o.maxLease > 365*24*time.Hour:
		return o, invalidf("max lease %v is not between 10ms and a year", o.maxLease)
	case o.maxLease%time.Millisecond != 0:
		return o, invalidf("max lease %v is not in whole milliseconds", o.maxLease)
	case o.conns < 1 || o.conns > maxConns:
		return o, invalidf("the number of connections, %d, is not between 1 and %d", o.conns, maxConns)
	case o.failoverSet && (o.failover < 1 || o.failover > maxCopies):
		return o, invalidf("the number of replicas that a failover may promote is not between 1 and %d", maxCopies)
	case o.prefixSet && !scripts.ValidPrefix(o.prefix):
		return o, invalidf("a prefix is 1 to 64 letters, digits, dots, dashes and underscores, and neither quorumlock nor " +
			"redisson_lock__channel: the colon that follows it in keys does not belong to it")
	case !validName(o.name):
		return o, invalidf("a node's name is UTF-8 of at most %d bytes, without control characters, without blanks at its ends, and no URL", maxName)
	case !validClientName(o.clientName):
		return o, invalidf("the connections' name is 1 to %d printable ASCII characters without spaces", maxName)
	case o.logger() == nil:
		return o, invalidf("the logger is nil")
	case slices.Contains(o.ofURLs, "WithCredentials") && o.credentials == nil:
		return o, invalidf("the function of WithCredentials is nil")
	case o.dialer == nil:
		return o, invalidf("the function of WithDialer is nil")
	}
	return o, nil
}
