package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	operators "github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
	"go.uber.org/goleak"
)

// onlyKeys fails the test unless the masters hold only the library's marker and the allowed keys.
func onlyKeys(t *testing.T, ms []*redistest.Master, allowed ...string) {
	t.Helper()
	allowed = append(allowed, scripts.MarkerKey)
	for _, m := range ms {
		var other []string
		if !poll.Until(patience, func() bool {
			all, err := redis.Strings(m.Do("KEYS", "*"))
			if err != nil { // a replica may still be loading
				other = []string{err.Error()}
				return false
			}
			other = slices.DeleteFunc(all, func(key string) bool {
				return slices.Contains(allowed, key) || strings.HasPrefix(key, "quorumlock:locker:") // which expires
			})
			return len(other) == 0
		}) {
			t.Errorf("left behind on %s: %q", m.Addr(), other)
		}
	}
}

// noGoroutines fails the test at its end if it leaves goroutines that do not run now. It is for
// tests that are not parallel.
func noGoroutines(t *testing.T) {
	t.Helper()
	now := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, now) })
}

// overPool opens a node over a pool of its own. wrap wraps the connections; nil leaves them.
func overPool(t *testing.T, m *redistest.Master, wrap func(redis.Conn) redis.Conn, opts ...node.Option) *node.Node {
	t.Helper()
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		c, err := redis.DialContext(ctx, "tcp", m.Addr())
		if err == nil && wrap != nil {
			c = wrap(c)
		}
		return c, err
	}}
	t.Cleanup(func() { pool.Close() })
	n, err := node.New(pool, append([]node.Option{node.WithTimeout(nodeTimeout), node.WithoutQuarantine()}, opts...)...)
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	return n
}

func TestSameMasterTwice(t *testing.T) {
	redistest.Need(t, redistest.ClientInfo) // without it such a node needs a name
	f := fleet(t, 2)
	noGoroutines(t)
	same, other := f.Masters[0], f.Masters[1]
	byName := strings.Replace(same.URL(), "127.0.0.1", "localhost", 1)
	compared := node.WithTimeout(20 * time.Second) // a master that stands still for longer is not compared
	patient := quorum.WithNodeOptions(compared)
	ours := []*node.Node{openNode(t, same.URL(), compared), openNode(t, same.URL(), compared), openNode(t, other.URL(), compared)}

	refused := func(what string, words ...string) func(*quorum.Locker, error) {
		return func(_ *quorum.Locker, err error) {
			t.Run(what, func(t *testing.T) { want(t, err, quorum.ErrInvalid, words...) })
		}
	}
	refused("one URL", same.Addr(), "given twice", "one process")(
		redlock.Open([]string{same.URL(), other.URL(), same.URL()}, patient))
	refused("one URL, named", same.Addr(), "given twice")(
		multilock.Open([]string{same.URL(), same.URL()}, patient, quorum.WithNodeOptions(node.WithName("north"))))
	refused("two names", same.Addr(), strings.TrimPrefix(byName, "redis://"), "one process")(
		redlock.Open([]string{same.URL(), byName, other.URL()}, patient))
	refused("two spellings", "given twice")(
		multilock.Open([]string{byName, strings.Replace(byName, "localhost", "LOCALHOST", 1)}, patient))
	refused("two databases", same.Addr(), "one process")(multilock.Open([]string{same.URL() + "/0", same.URL() + "/1"}, patient))
	refused("two names, multilock", same.Addr(), "one process")(multilock.Open([]string{same.URL(), byName}, patient))
	refused("one node", same.Addr(), "twice")(redlock.New([]*node.Node{ours[0], ours[2], ours[0]}))
	refused("two nodes", same.Addr(), "one process")(multilock.New(ours[:2]))
	pools := []*node.Node{overPool(t, same, nil, compared), overPool(t, same, nil, compared)}
	refused("two pools", same.Addr(), "one process")(multilock.New(pools))
	refused("a pool and a URL", same.Addr(), "one process")(redlock.New([]*node.Node{pools[0], ours[0], ours[2]}))
	onlyKeys(t, f.Masters)
}

// Nodes that share a name are refused before any call: no error could say which node it is about.
func TestNodesNamedAlike(t *testing.T) {
	f := fleet(t, 3)
	noGoroutines(t)
	named := func(m *redistest.Master, name string) *node.Node { return openNode(t, m.URL(), node.WithName(name)) }
	refused := func(what string, words ...string) func(*quorum.Locker, error) {
		return func(_ *quorum.Locker, err error) {
			t.Run(what, func(t *testing.T) {
				want(t, err, quorum.ErrInvalid, words...)
				lacks(t, err.Error(), "process", "twice") // that is not what is wrong
			})
		}
	}
	refused("all by one option", `both named "north"`, "WithNodeOptions")(
		redlock.Open(f.URLs(), quorum.WithNodeOptions(node.WithName("north"))))
	refused("two of three", "nodes 1 and 3", `both named "north"`)(
		redlock.New([]*node.Node{named(f.Masters[0], "north"), named(f.Masters[1], "south"), named(f.Masters[2], "north")}))
	refused("as another's address", "nodes 1 and 2", "both named")(
		multilock.New([]*node.Node{named(f.Masters[0], f.Masters[1].Addr()), openNode(t, f.Masters[1].URL())}))
	refused("its address as another's name", "nodes 1 and 2", "both named")(
		multilock.New([]*node.Node{openNode(t, f.Masters[1].URL()), named(f.Masters[0], f.Masters[1].Addr())}))
	for _, m := range f.Masters {
		all := do(t, m, "KEYS", "*").([]any)
		testkit.Check(t, len(all) == 0, "%s was touched: %s", m.Addr(), all)
	}
	one := open(t, addresses(f.URLs()[:1]), multilock.Open, quorum.WithNodeOptions(node.WithName("north")))
	unlock(t, lock(t, one, "bridge"))
}

// Two masters in separate networks, or behind tunnels, may report the same address. A node over a
// pool takes its name from its server.
func TestServersThatBelieveInOneAddress(t *testing.T) {
	redistest.Need(t, redistest.ClientInfo) // without it such a node needs a name
	f := fleet(t, 2)
	var pair, named []*node.Node
	for i, m := range f.Masters {
		pair = append(pair, overPool(t, m, sameAddressOf))
		named = append(named, overPool(t, m, sameAddressOf, node.WithName(fmt.Sprint("master", i))))
	}
	l := testkit.Got(multilock.New(pair))(t)
	_, err := l.Lock(t.Context(), "bridge")
	want(t, err, quorum.ErrInvalid, "tell the same address, 10.0.0.1:6379: give the nodes names")
	must(t, l.Close())
	for range 2 {
		l := testkit.Got(multilock.New(named))(t)
		unlock(t, lock(t, l, "bridge"))
		must(t, l.Close())
	}
}

// sameAddress is a connection whose server says that its address is 10.0.0.1:6379.
type sameAddress struct{ redis.ConnWithTimeout }

func sameAddressOf(c redis.Conn) redis.Conn { return sameAddress{c.(redis.ConnWithTimeout)} }

func (c sameAddress) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if text, ok := reply.([]byte); ok && strings.Contains(string(text), "laddr=") {
		return []byte("id=1 laddr=10.0.0.1:6379 db=0"), err
	}
	return reply, err
}

// Two addresses of one master never count as two grants, even if one does not answer at first and
// hides that.
func TestSameMasterTwiceComesOut(t *testing.T) {
	t.Parallel()
	f := fleet(t, 2)
	second := gate(t, f.Masters[0])
	address := second.Addr()
	urls := []string{f.Masters[0].URL(), "redis://" + address, f.Masters[1].URL()}
	second.Lose()
	all := open(t, addresses(urls[:2]), multilock.Open)
	most := open(t, addresses(urls), redlock.Open)
	second.Heal()

	isRefused := func(l *quorum.Locker) {
		t.Helper()
		var err error
		poll.Until(patience, func() bool { // until the second address answers
			_, err = l.TryLock(t.Context(), "bridge")
			return !errors.Is(err, node.ErrDown)
		})
		want(t, err, quorum.ErrInvalid, "the same process", f.Masters[0].Addr(), address)
	}
	isRefused(all)
	_, err := all.Lock(short(t), "bridge")
	want(t, err, quorum.ErrNotAcquired, "the same process")
	testkit.Check(t, !errors.Is(err, context.DeadlineExceeded), "Lock waited for what waiting does not change: %v", err)

	// No client begins a deployment of such a list. An operator's word does.
	isRefused(most)
	for _, url := range f.URLs() {
		members := []string{f.Masters[0].Addr(), address, f.Masters[1].Addr()}
		must(t, operators.AdmitMembers(t.Context(), openNode(t, url), members))
	}
	held := lock(t, most, "bridge") // two processes: a majority
	// The first master gets the release over both addresses. The later one finds nothing, which
	// Unlock may take for a loss.
	err = held.Unlock(short(t))
	testkit.Check(t, err == nil || errors.Is(err, quorum.ErrLost), "%v", err)
	noLocks(t, f.Masters)
	must(t, f.Masters[1].Kill())
	one, err := most.TryLock(t.Context(), "bridge")
	testkit.Check(t, err != nil, "one process granted a majority of three: %v", one)
	noLocks(t, f.Masters[:1])
}

// What cannot be is refused before any master is asked: quorum/testdata/refused.txt has the names and the settings, these
// are the rest.
func TestSettingsThatCannotBe(t *testing.T) {
	f := fleet(t, 1)
	noGoroutines(t)
	const maxLease = 10 * time.Second
	usual, maxed := openNode(t, f.Masters[0].URL()), openNode(t, f.Masters[0].URL(), node.WithMaxLease(maxLease))
	good := careful(t, f, redlock.Open, maxLease, nodesInTime, quorum.WithNodeOptions(node.WithoutQuarantine()))
	for what, opt := range map[string]quorum.Option{
		"clock":  quorumtest.WithClock(nil),
		"source": quorumtest.WithRand(nil),
		"a node": quorum.WithNodeOptions(node.WithTimeout(0)), // TestOptions of package node has the others
	} {
		_, err := redlock.Open(f.URLs(), quorum.WithNodeOptions(node.WithMaxLease(maxLease)), opt)
		want(t, err, quorum.ErrInvalid)
		_, err = good.With(opt).With(quorum.WithHooks(quorum.Hooks{})).TryLock(short(t), "bridge")
		want(t, err, quorum.ErrInvalid)
		t.Logf("%s: %v", what, err)
	}
	_, err := multilock.New([]*node.Node{maxed}, quorum.WithLease(maxLease+1))
	want(t, err, quorum.ErrInvalid, "10s, the nodes' max lease")
	want(t, testkit.ErrorOf(redlock.New([]*node.Node{usual, maxed, usual})), quorum.ErrInvalid, "max lease", "30s", "10s")
	_, err = good.With(quorum.WithNodeOptions(node.WithConns(2))).TryLock(short(t), "bridge")
	want(t, err, quorum.ErrInvalid, "nodes' options")
	onlyKeys(t, f.Masters)
}

// A dead master behind a pool has no name, so the list is not known: the masters that carry one are not
// compared with it, and a Lock waits.
func TestADeadMasterOverAPoolWithoutAName(t *testing.T) {
	redistest.Need(t, redistest.ClientInfo) // without it such a node needs a name
	t.Parallel()
	f := fleet(t, 3)
	unlock(t, lock(t, open(t, f, redlock.Open), "bridge"))
	must(t, f.Masters[2].Kill())
	var unnamed []*node.Node
	for _, m := range f.Masters {
		unnamed = append(unnamed, overPool(t, m, nil))
	}
	l := testkit.Opened(redlock.New(unnamed))(t)
	want(t, testkit.ErrorOf(l.TryLock(t.Context(), "bridge")), quorum.ErrUnavailable, "the list of masters is not known")

	must(t, f.Masters[2].Start())
	unlock(t, lock(t, l, "bridge"))
}
