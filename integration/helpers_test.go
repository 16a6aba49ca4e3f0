// Package integration_test shows what users of the library see, on real redis-server processes.
package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// nodeTimeout is the node timeout of the lockers that open returns: longer than a busy machine stands still.
	nodeTimeout = 3 * time.Second
	// memberTimeout is for lockers whose masters all answer.
	memberTimeout = 10 * time.Second
	// soon bounds what should happen at once, even on a busy machine.
	soon = 2 * time.Second
	// patience is how long a test waits for an event that must come: as long as nobody's patience ends first.
	patience = 20 * time.Second
)

var (
	must = testkit.Must
	do   = testkit.Do
)

func TestMain(m *testing.M) { testkit.Main(m) }

// fleet starts n redis-server processes and stops them when the test ends. Without redis-server the
// test is skipped.
func fleet(t *testing.T, n int, args ...string) *redistest.Fleet {
	t.Helper()
	f := testkit.Real(t, n, args...)
	for _, m := range f.Masters { // as masters that are in use
		for _, s := range scripts.All() {
			m.Do("SCRIPT", "LOAD", s.Source()) // a test's server may refuse
		}
	}
	return f
}

// addressed is a set of nodes to open: a *redistest.Fleet, or addresses.
type addressed interface{ URLs() []string }

type addresses []string

func (a addresses) URLs() []string { return a }

// opener is redlock.Open or multilock.Open.
type opener func(urls []string, opts ...quorum.Option) (*quorum.Locker, error)

// open opens a Locker without quarantine and with nodeTimeout, unless opts say otherwise, and
// closes it when the test ends.
func open(t *testing.T, nodes addressed, by opener, opts ...quorum.Option) *quorum.Locker {
	t.Helper()
	return openWith(t, nodes, by, opts, node.WithTimeout(nodeTimeout), node.WithoutQuarantine())
}

// nodesInTime is for careful where masters die, or come back: no call waits for them for longer than nodeTimeout.
var nodesInTime = quorum.WithNodeOptions(node.WithTimeout(nodeTimeout))

// careful is open for a Locker that keeps nodes in quarantine after they forgot. It waits for them with patience.
func careful(t *testing.T, nodes addressed, by opener, maxLease time.Duration, opts ...quorum.Option) *quorum.Locker {
	t.Helper()
	return openWith(t, nodes, by, opts, node.WithTimeout(memberTimeout), node.WithMaxLease(maxLease))
}

func openWith(t *testing.T, nodes addressed, by opener, opts []quorum.Option, usual ...node.Option) *quorum.Locker {
	t.Helper()
	return testkit.Opened(by(nodes.URLs(), append([]quorum.Option{quorum.WithNodeOptions(usual...)}, opts...)...))(t)
}

// openNode opens a node with nodeTimeout, unless opts say otherwise, and closes it when the test ends.
func openNode(t *testing.T, url string, opts ...node.Option) *node.Node {
	t.Helper()
	return testkit.Opened(node.Open(url, append([]node.Option{node.WithTimeout(nodeTimeout)}, opts...)...))(t)
}

// lock locks the names within our patience, with a context that lasts as long as the test.
func lock(t *testing.T, l *quorum.Locker, names ...string) *quorum.Lock {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	late := time.AfterFunc(patience, cancel)
	held, err := l.Lock(ctx, names...)
	if err != nil {
		cancel()
		t.Fatalf("lock %v: %v", names, err)
	}
	late.Stop()
	t.Cleanup(cancel)
	return held
}

func unlock(t *testing.T, held *quorum.Lock) {
	t.Helper()
	err := held.Unlock(short(t))
	testkit.Require(t, err == nil, "unlock %v: %v", held.Names(), err)
}

// keys reads the hash at a name from each master: nil if the name is free. Every master has to
// answer.
func keys(t *testing.T, ms []*redistest.Master, name string) []map[string]string {
	t.Helper()
	all := make([]map[string]string, len(ms))
	for i, m := range ms {
		hash := testkit.Got(redis.StringMap(m.Do("HGETALL", name)))(t)
		if len(hash) > 0 {
			all[i] = hash
		}
	}
	return all
}

// grantedByAll waits until all of the masters have granted the name: a lock itself needs no more
// than a quorum.
func grantedByAll(t *testing.T, ms []*redistest.Master, name string) {
	t.Helper()
	eventually(t, name+" granted by all masters", func() bool {
		return !slices.ContainsFunc(keys(t, ms, name), func(hash map[string]string) bool { return hash == nil })
	})
}

func allLocks(t *testing.T, ms []*redistest.Master) []string {
	t.Helper()
	var locks []string
	for _, m := range ms {
		names := testkit.Got(testkit.Locks(m))(t)
		for _, name := range names {
			locks = append(locks, name+" on "+m.Addr())
		}
	}
	return locks
}

// noLocks fails the test unless the masters soon hold no lock. It watches for another 100 ms that
// none comes back.
func noLocks(t *testing.T, ms []*redistest.Master) {
	t.Helper()
	var left []string
	if !poll.Until(patience, func() bool { left = allLocks(t, ms); return len(left) == 0 }) {
		t.Errorf("%d locks left behind: %q", len(left), left[:min(len(left), 10)])
		return
	}
	cameBack := poll.Until(100*time.Millisecond, func() bool { left = allLocks(t, ms); return len(left) != 0 })
	testkit.Check(t, !cameBack, "%d locks came back: %q", len(left), left[:min(len(left), 10)])
}

// stopwatch starts a stopwatch, which runs until the test ends at the latest.
func stopwatch(t *testing.T) *poll.Stopwatch {
	w := poll.Start()
	t.Cleanup(w.Stop)
	return w
}

// took fails the test when fn takes longer than bound, and the machine's stalls do not explain it.
func took(t *testing.T, what string, bound time.Duration, fn func()) {
	t.Helper()
	w := stopwatch(t)
	defer w.Stop()
	fn()
	if d, stalled := w.Read(); d > poll.AtMost(bound, stalled) {
		t.Errorf("%s took %v, more than %v; the machine stood still for %v", what, d, bound, stalled)
	}
}

// eventually ends the test unless something holds within our patience.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Require(t, poll.Until(patience, holds), "not within %v: %s", patience, what)
}

func onAll(t *testing.T, f *redistest.Fleet, args ...any) {
	t.Helper()
	for _, m := range f.Masters {
		do(t, m, args...)
	}
}

// want fails the test unless err wraps the target, and its text holds all the words, is short and
// reveals no secret.
func want(t *testing.T, err error, target error, words ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v: does not wrap %q", err, target)
		return
	}
	holds(t, err.Error(), words...)
	lacks(t, err.Error(), "s3cret")
	n := len(err.Error())
	testkit.Check(t, n <= 1500, "the error has %d bytes: %.200q...", n, err)
}

func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		testkit.Check(t, strings.Contains(text, part), "it lacks %q: %s", part, text)
	}
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		testkit.Check(t, !strings.Contains(text, part), "it has %q: %s", part, text)
	}
}

// short bounds a call that should return at once, and would otherwise wait for ever.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// forwarded puts a forwarder in front of each master, until the test ends. Its URL has the name that the master
// has for clients without it.
func forwarded(t *testing.T, f *redistest.Fleet) (forwards []*forward.Forward, urls addresses) {
	t.Helper()
	for _, m := range f.Masters {
		g := gate(t, m)
		forwards, urls = append(forwards, g), append(urls, "redis://"+g.Addr()+"?name="+m.Addr())
	}
	return forwards, urls
}

// gate forwards to a master until the test ends.
func gate(t *testing.T, m *redistest.Master) *forward.Forward {
	t.Helper()
	port, held, err := redistest.ClaimPort() // no other test's server answers where it has closed
	must(t, err)
	t.Cleanup(func() { held.Close() })
	listener := testkit.Got(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)))(t)
	g := forward.From(listener, m.Addr())
	t.Cleanup(g.Close)
	return g
}
