// Package quorumtest runs Redis masters inside the test's own process, for tests of a service that
// locks. It needs no redis-server and no container:
//
//	func TestCharge(t *testing.T) {
//		masters := quorumtest.Start(t, 3)
//		svc := service.New(masters.Locker())
//		masters.HoldElsewhere("invoice:42")
//		// svc must not charge now
//	}
//
// What can go wrong with a lock, and how to cause it:
//
//   - another process holds it (ErrHeld): [Masters.HoldElsewhere]
//   - another process reads (ErrHeld for a writer): [Masters.ReadElsewhere]
//   - a held lock is lost (ErrLost): [Masters.Lose]; all locks: [Masters.FastForward]
//   - a lease ends that nobody renews: [Masters.FastForward]
//   - a holder's process stands still: [Masters.Pause]
//   - a process is killed, or redeployed: [Masters.Run], under [Explore]
//   - masters do not answer (ErrUnavailable): [Masters.Stop]
//   - a master restarts without its data: [Masters.Forget]
//
// With any of these, two holders are never valid at once if every locker has [Masters.Options].
//
// The order of names is checked. A test fails if one call waits for "b" in the context of a lock of "a", another waits
// for "a" in that of "b", and [quorum.WithWait] bounds neither: two processes that did so at once would wait for each other.
//
// In a testing/synctest bubble all this takes no time: a lease ends, and a lock is renewed for an hour,
// in milliseconds, while the test sleeps. (With -race, call runtime.GOMAXPROCS(1) in TestMain: Go 1.26
// may crash otherwise, see https://go.dev/issue/78156.) [Explore] runs a test under random faults.
//
// The masters are stand-ins: state machines in Go that know the library's commands and scripts. The
// library's tests compare them with real servers. They are not Redis servers to keep a service's data in.
package quorumtest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

const (
	// patience bounds what should take milliseconds.
	patience = 20 * time.Second
	// defaultDay is how long one owner may hold a lock in a bubble. Tests of this package shorten it.
	defaultDay = 24 * time.Hour
	// nodeTimeout is for a busy machine: a master of this package answers, or refuses connections.
	nodeTimeout = 10 * time.Second
)

// Masters are the masters of one test. Their methods are safe for concurrent use, but those that may fail the test (all
// but URLs, Options, Clock, Pause and Work) must run in the goroutine of the test that the function [Start] was given:
// a subtest starts masters of its own.
type Masters struct {
	tb  testing.TB
	day time.Duration // of watch
	*fleet

	mu        sync.Mutex
	elsewhere *quorum.Locker // of HoldElsewhere; nil before its first call
}

// fleet is what the masters of a test are, whoever uses them.
type fleet struct {
	starter   testing.TB // of Start
	world     *world.World
	addresses []string // of the masters
	members   []string // their names, which end with the deployment's prefix
	isOutside bool     // of a bubble: they listen there
	nodeOpts  []node.Option
	logger    *slog.Logger
	orders    orders

	exploration *exploration // nil except in Explore

	stopsMu sync.Mutex
	stops   map[int]func() // what starts a master that the test has stopped

	lockersMu sync.Mutex
	lockers   map[*quorum.Locker]*process // of Masters.Locker
}

// Start starts n empty masters, which end when the test does. They are not in quarantine, and never will be, except by
// [Masters.Forget] and the faults of [Explore]: they grant at once, also to a locker that the service opens with nothing
// but [Masters.URLs]. Start fails the test when it cannot start them.
//
// The options apply to every node that the Masters open. A deployment whose max lease is not the default
// ([node.WithMaxLease]), or that has a prefix ([node.WithPrefix]), gives it here: a client with another max lease is
// refused, and one with another prefix waits for a quarantine. The timeout is 10 s unless they say otherwise
// ([node.WithTimeout]): a machine that is busy with tests may stand still for longer than the usual one.
//
// In a testing/synctest bubble, call Start there. The masters then have no sockets: a locker that the
// service opens itself reaches them by [Masters.Options], and the timeout is the usual one. A lock that one owner holds
// for a day of the bubble's time fails the test, and is lost: if an Unlock is forgotten, time would pass without end.
func Start(tb testing.TB, n int, opts ...node.Option) *Masters {
	tb.Helper()
	return start(tb, world.Config{Masters: n}, opts)
}

func start(tb testing.TB, c world.Config, opts []node.Option) *Masters {
	tb.Helper()
	logger := newLogger(tb) // first, so that it ends last
	if c.Masters < 1 {
		tb.Fatalf("quorumtest: start %d masters: want at least 1", c.Masters)
	}
	usual := []node.Option{node.WithLogger(logger), inside.Option[node.Option](func(s *inside.Settings) { s.OneProcess = true })}
	if !inBubble() {
		usual = append(usual, node.WithTimeout(nodeTimeout))
	}
	f := &fleet{starter: tb, world: c.New(tb), nodeOpts: append(usual, opts...), logger: logger, stops: map[int]func(){},
		lockers: map[*quorum.Locker]*process{}, orders: orders{taken: map[[2]string][][]string{}}}
	tb.Cleanup(func() { f.orders.report(tb) })
	m := &Masters{tb: tb, fleet: f, day: defaultDay}
	for i := range c.Masters {
		address, err := f.listen(i)
		if err != nil {
			tb.Fatalf("quorumtest: %v", err)
		}
		f.addresses = append(f.addresses, address)
	}
	// It is safe to admit them: no master of this process has granted anything.
	if err := m.admit(); err != nil {
		tb.Fatalf("quorumtest: %v", err)
	}
	if inBubble() {
		m.watchHolders()
	}
	return m
}

// admit ends the masters' quarantines, and gives them their list.
func (m *Masters) admit() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var nodes []*node.Node
	for _, address := range m.addresses {
		n, err := node.Open("redis://"+address, append([]node.Option{node.WithDialer(m.dialAsNobody)}, m.nodeOpts...)...)
		if err != nil {
			return err
		}
		defer n.Close()
		nodes, m.members = append(nodes, n), append(m.members, n.Name())
	}
	for _, n := range nodes {
		if err := operator.AdmitMembers(ctx, n, m.members); err != nil {
			return err
		}
	}
	return nil
}

// URLs returns the masters' URLs, in the order [Masters.Stop] counts them. Every locker of
// a test must be given all of them, and no other names for them: the masters refuse a locker with
// another list.
func (m *Masters) URLs() []string {
	urls := make([]string, len(m.addresses))
	for i, address := range m.addresses {
		urls[i] = "redis://" + address
	}
	return urls
}

// Clock returns the clock of the masters' lockers. It runs like any clock, and
// [Masters.FastForward] moves it.
func (m *Masters) Clock() clock.Clock { return m.world.Clock }

// Options returns the options of the masters' lockers, for a locker that the test or the service
// opens itself: [Masters.Clock], the node options of [Start], connections in memory, and a logger to
// the test's output. Later options win.
//
// A locker without them doesn't notice [Masters.FastForward], fails on a machine that stands
// still for longer than [node.DefaultTimeout], and does not reach masters in a bubble.
func (m *Masters) Options() []quorum.Option { return m.newProcess().options() }

// Locker returns a locker over all the masters, by the rule of package redlock. The end of the test
// closes it. Lockers act like different processes. Options are as for
// redlock.Open, and come after [Masters.Options]. It logs to the test's output, which is shown
// if the test fails; [quorum.WithLogger] names another logger. Locker fails the test if redlock.Open
// returns an error, and for an even number of masters.
func (m *Masters) Locker(opts ...quorum.Option) *quorum.Locker {
	m.tb.Helper()
	if n := len(m.addresses); n%2 == 0 {
		m.tb.Fatalf("quorumtest: redlock needs an odd number of masters, not %d", n)
	}
	return m.open(quorum.Majority, opts)
}

func (m *Masters) open(rule quorum.Rule, opts []quorum.Option) *quorum.Locker {
	m.tb.Helper()
	locker := m.openIn(m.newProcess(), rule, opts)
	m.tb.Cleanup(func() { locker.Close() })
	return locker
}

func (m *Masters) openIn(p *process, rule quorum.Rule, opts []quorum.Option) *quorum.Locker {
	m.tb.Helper()
	locker, err := quorum.Open(m.URLs(), rule, append(p.options(), opts...)...)
	if err != nil {
		m.tb.Fatalf("quorumtest: %v", err)
	}
	m.lockersMu.Lock()
	defer m.lockersMu.Unlock()
	m.lockers[locker] = p
	return locker
}
