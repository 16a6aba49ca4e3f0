// Package clienttest holds the modules that open nodes by the options of other clients to what
// docs/clients.md promises.
package clienttest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// Settings are what a client's options say of a connection. A field's zero value stands for the options'.
type Settings struct {
	Addr           string // host:port, or the path of a unix socket
	User, Password string
	Ask            func(context.Context) (user, password string, err error)
	DB             int
	Name           string
	TLS            *tls.Config
	Dial           func(ctx context.Context, network, addr string) (net.Conn, error)
	Timeout        time.Duration // for connecting, or for a reply
}

// DialFn dials as a function without a context does, which makes the TLS handshake with what it is given.
func (s Settings) DialFn(addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	switch {
	case d.Timeout == 0:
		return nil, errors.New("a dialer without a timeout")
	case s.Dial != nil:
		return s.Dial(context.Background(), "tcp", addr)
	case config != nil:
		return tls.DialWithDialer(d, "tcp", addr, config)
	case strings.HasPrefix(addr, "/"):
		return d.Dial("unix", addr)
	}
	return d.Dial("tcp", addr)
}

// Opener opens a node by a client's options with these settings.
type Opener func(s Settings, opts ...node.Option) (*node.Node, error)

const (
	bound = 10 * time.Second // for events that should be immediate
	// frozen is the timeout of a client whose master freezes.
	frozen = 700 * time.Millisecond
)

// Run tests an Opener on servers of its own.
func Run(t *testing.T, open Opener) {
	for name, test := range map[string]func(*testing.T, Opener){
		"no address":    testNoAddress,
		"connections":   testConnections,
		"database":      testDatabase,
		"user":          testUser,
		"rotation":      testRotation,
		"TLS":           testTLS,
		"unix socket":   testUnixSocket,
		"frozen master": testFrozenMaster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

// A URL in the place of an address is refused, and not repeated: it may hold a password.
func testNoAddress(t *testing.T, open Opener) {
	for _, address := range []string{"redis://:secret@h:6379", "redis://:secret@h", "redis://secret:6379", "app:secret@h", ":secret@h:6379",
		"secret@h:6379", "h:6379?password=secret", "//app:secret@h:6379", "unix://app:secret@/run/r"} {
		n, err := open(Settings{Addr: address})
		if !errors.Is(err, node.ErrInvalid) || n != nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The client's dialer makes all connections, and they have the client's name: one for calls, one while a
// caller waits, and one for Check, which ends with it: the address may lead elsewhere at the next use.
func testConnections(t *testing.T, open Opener) {
	m := testkit.Real(t, 1).Masters[0]
	var dialled atomic.Int32
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		testkit.Check(t, network+" "+addr == "tcp lock-a.internal:7000", "asked to dial %s %s", network, addr)
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", m.Addr())
	}
	n := mustOpen(t, open, Settings{Addr: "lock-a.internal:7000", Name: "billing", Dial: dial})
	wants := func(when string, all, subscribed int) {
		t.Helper()
		var list []string
		if !poll.Until(bound, func() bool {
			list = clients(t, m, "name=billing")
			inSub := slices.DeleteFunc(slices.Clone(list), func(c string) bool { return strings.Contains(c, " sub=0 ") })
			return len(list) == all && len(inSub) == subscribed
		}) {
			t.Fatalf("%s: want %d connections, %d of them for messages; got\n%s",
				when, all, subscribed, strings.Join(list, ""))
		}
	}
	wants("before the first use", 0, 0)
	byURL := func(_ Settings, opts ...node.Option) (*node.Node, error) { return node.Open(m.URL(), opts...) }
	locker, other := newLocker(t, n), newLocker(t, mustOpen(t, byURL, Settings{}))
	mustLock(t, locker, "k")
	wants("after a lock", 1, 0)
	before := dialled.Load() // the first lock may have waited for the master

	held := mustLock(t, other, "held")
	acquired := make(chan error, 1)
	go func() {
		lock, err := locker.Lock(t.Context(), "held")
		if err == nil {
			err = lock.Unlock(t.Context())
		}
		acquired <- err
	}()
	wants("while a caller waits", 2, 1)
	testkit.Got(operator.Check(t.Context(), n))(t)
	wants("after Check", 2, 1)
	testkit.Must(t, held.Unlock(t.Context()))
	testkit.Must(t, <-acquired)
	wants("after the wait", 1, 0)
	testkit.Got(operator.Check(t.Context(), n))(t)
	wants("after another Check", 1, 0)
	if made := dialled.Load() - before; before == 0 || made != 1+2*(1+8) { // each Check dials eight times more
		t.Errorf("dialled %d connections, and then %d, want 19", before, made)
	}
}

func testDatabase(t *testing.T, open Opener) {
	m := testkit.Real(t, 1).Masters[0]
	n := mustOpen(t, open, Settings{Addr: m.Addr(), DB: 3})
	testkit.Check(t, n.Name() == "m/3", "the node is named %s", n.Name())
	mustLock(t, newLocker(t, n), "k")
	if keys := text(t, m, "INFO", "keyspace"); !strings.Contains(keys, "db3:") || strings.Contains(keys, "db0:") {
		t.Errorf("the keys are not in database 3: %s", keys)
	}
}

// Credentials that do not change are permanent when they are refused.
func testUser(t *testing.T, open Opener) {
	m := testkit.Real(t, 1).Masters[0]
	const password = "p@ss/w?rd#:%41 ü"
	setPassword(t, m, password)
	mustLock(t, newLocker(t, mustOpen(t, open, Settings{Addr: m.Addr(), User: "app", Password: password})), "k")
	onlyClient(t, m, "user=app")
	_, err := operator.Check(t.Context(), mustOpen(t, open, Settings{Addr: m.Addr(), User: "app", Password: "s3cret"}))
	var refused *node.Error
	testkit.Check(t, errors.As(err, &refused) && refused.Permanent() && !strings.Contains(err.Error(), "s3cret"), "with a wrong password: %v", err)
	testkit.Do(t, m, "CONFIG", "SET", "requirepass", "all")
	testkit.Got(operator.Check(t.Context(), mustOpen(t, open, Settings{Addr: m.Addr(), Password: "all"})))(t)
}

// A new connection uses the new password, and the old one lives on.
func testRotation(t *testing.T, open Opener) {
	m := testkit.Real(t, 1).Masters[0]
	var password atomic.Value
	password.Store("first")
	setPassword(t, m, "first")
	n := mustOpen(t, open, Settings{Addr: m.Addr(), Ask: func(context.Context) (string, string, error) {
		return "app", password.Load().(string), nil
	}})
	locker := newLocker(t, n)
	mustLock(t, locker, "k")
	before := onlyClient(t, m, "user=app")
	setPassword(t, m, "second")
	mustLock(t, locker, "l")
	id, _, _ := strings.Cut(before, " ")
	now := onlyClient(t, m, "user=app")
	testkit.Check(t, strings.HasPrefix(now, id+" "), "the connection did not live on: %s, before %s", now, before)

	_, err := operator.Check(t.Context(), n) // over a new connection
	var refused *node.Error
	testkit.Check(t, errors.As(err, &refused) && !refused.Permanent(), "with the old password: %v", err)
	password.Store("second")
	testkit.Got(operator.Check(t.Context(), n))(t)
	testkit.Do(t, m, "CLIENT", "KILL", "USER", "app")
	mustLock(t, locker, "m")
}

// The client shows a certificate, without which the server refuses it.
func testTLS(t *testing.T, open Opener) {
	_, dir, port, roots := testkit.TLS(t, "localhost")
	pair := testkit.Got(tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))(t)

	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	bare := mustOpen(t, open, Settings{Addr: "localhost:" + port, TLS: config.Clone()})
	_, err := operator.Check(t.Context(), bare)
	testkit.Check(t, err != nil, "the server took a client without a certificate")
	config.Certificates = []tls.Certificate{pair}
	mustLock(t, newLocker(t, mustOpen(t, open, Settings{Addr: "localhost:" + port, TLS: config})), "k")
	stranger := config.Clone()
	stranger.RootCAs = nil
	_, err = operator.Check(t.Context(), mustOpen(t, open, Settings{Addr: "localhost:" + port, TLS: stranger}))
	testkit.Check(t, errors.As(err, new(*tls.CertificateVerificationError)), "with the system's authorities: %v", err)
}

func testUnixSocket(t *testing.T, open Opener) {
	dir, err := os.MkdirTemp("", "socket") // the path of t.TempDir is too long for a socket
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "a%b@c.sock")
	m := testkit.Real(t, 1, "--unixsocket", path).Masters[0]
	n := mustOpen(t, open, Settings{Addr: path, DB: 2})
	mustLock(t, newLocker(t, n), "k")
	c := onlyClient(t, m, "name=quorumlock")
	testkit.Check(t, strings.Contains(c, " addr="+path) && strings.Contains(c, " db=2 ") && n.Address() == path,
		"connected over %s to %q", c, n.Address())
}

// A call on a frozen master ends at the client's timeout, or at the node's.
func testFrozenMaster(t *testing.T, open Opener) {
	m := testkit.Real(t, 1).Masters[0]
	usual := testkit.Got(open(Settings{Addr: m.Addr()}, node.WithName("m")))(t)
	own := testkit.Got(open(Settings{Addr: m.Addr(), Timeout: bound}, node.WithName("m"), node.WithTimeout(frozen)))(t)
	theirs := testkit.Got(open(Settings{Addr: m.Addr(), Timeout: frozen}, node.WithName("m")))(t)
	testkit.Must(t, m.Freeze())
	var waiting sync.WaitGroup
	for n, want := range map[*node.Node]time.Duration{usual: node.DefaultTimeout, own: frozen, theirs: frozen} {
		waiting.Go(func() {
			defer n.Close()
			watch := poll.Start()
			defer watch.Stop()
			err := inside.Of(n).Pipe("k").Do(t.Context(), scripts.Look()).Err
			took, stalled := watch.Read()
			testkit.Check(t, errors.Is(err, node.ErrTimeout) && strings.Contains(err.Error(), "after "+want.String()),
				"want a timeout after %v, got %v", want, err)
			testkit.Check(t, took <= poll.AtMost(want+300*time.Millisecond, stalled), "took %v, want %v; the machine stood still for %v", took, want, stalled)
		})
	}
	waiting.Wait()
	testkit.Must(t, m.Thaw())
}

// mustOpen opens a node without quarantine, and with a timeout that no busy machine exceeds.
func mustOpen(t *testing.T, open Opener, s Settings) *node.Node {
	t.Helper()
	return testkit.Opened(open(s, node.WithoutQuarantine(), node.WithTimeout(bound), node.WithName("m")))(t)
}

func newLocker(t *testing.T, n *node.Node) *quorum.Locker {
	t.Helper()
	return testkit.Opened(multilock.New([]*node.Node{n}, quorum.WithWait(3*bound)))(t)
}

func mustLock(t *testing.T, l *quorum.Locker, name string) *quorum.Lock {
	t.Helper()
	return testkit.Got(l.Lock(t.Context(), name))(t)
}

// setPassword makes that the only password of user "app".
func setPassword(t *testing.T, m *redistest.Master, password string) {
	t.Helper()
	testkit.Do(t, m, redistest.SetUser("app", "on", "resetpass", ">"+password, "~*", "&*", "+@all")...)
}

func clients(t *testing.T, m *redistest.Master, field string) []string {
	t.Helper()
	lines := slices.Collect(strings.Lines(text(t, m, "CLIENT", "LIST")))
	return slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, " "+field+" ") })
}

// onlyClient returns that line when there is one. A lock that waited leaves a second one for a moment.
func onlyClient(t *testing.T, m *redistest.Master, field string) string {
	t.Helper()
	var found []string
	if !poll.Until(bound, func() bool { found = clients(t, m, field); return len(found) == 1 }) {
		t.Fatalf("want one connection with %s, got %q", field, found)
	}
	return found[0]
}

func text(t *testing.T, m *redistest.Master, args ...any) string {
	t.Helper()
	return string(testkit.Do(t, m, args...).([]byte))
}
