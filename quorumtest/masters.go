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
//	another process holds it (ErrHeld)           [Masters.HoldElsewhere]
//	another process reads (ErrHeld for a writer) [Masters.ReadElsewhere]
//	a held lock is lost (ErrLost)                [Masters.Lose]; all locks: [Masters.FastForward]
//	a lease ends that nobody renews              [Masters.FastForward]
//	masters do not answer (ErrUnavailable)       [Masters.Stop]
//
// With any of these, two holders are never valid at once if every locker has [Masters.Options].
//
// The masters are stand-ins (miniredis): they run the library's scripts, but are not a Redis server
// to measure. Sockets are real, so a test in a testing/synctest bubble cannot use them.
//
// The files, each of which uses only those above it: options.go, context.go, log.go, masters.go, faults.go, holders.go.
package quorumtest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/quorum"
)

const (
	// defaultPatience bounds what should take milliseconds. Tests of this package shorten it.
	defaultPatience = 20 * time.Second
	// nodeTimeout is for a busy machine: a master of this package answers, or refuses connections.
	nodeTimeout = 10 * time.Second
)

// Masters are the masters of one test. Their methods are safe for concurrent use, but those that
// may fail the test (all but URLs and Clock) must run in the goroutine of the test that [Start] was
// given: a subtest starts masters of its own.
type Masters struct {
	tb       testing.TB
	fleet    *redistest.Fleet
	nodeOpts []node.Option
	clock    *fakeclock.Clock
	logger   *slog.Logger

	patience time.Duration

	mu        sync.Mutex
	stopped   map[int]bool
	elsewhere *quorum.Locker // of HoldElsewhere; nil before its first call
}

// Start starts n empty masters, which end when the test does. They are not in quarantine, and never
// will be: they grant at once, also to a locker that the service opens with nothing but
// [Masters.URLs]. Start fails the test when it cannot start them.
//
// The options are those of every node that the Masters open. A deployment whose max lease is not
// the default gives it here ([node.WithMaxLease]), since a client with another one is refused. The
// timeout is 10 s unless they say otherwise ([node.WithTimeout]): a machine that is busy with tests
// may stand still for longer than the usual one.
func Start(tb testing.TB, n int, opts ...node.Option) *Masters {
	tb.Helper()
	logger := newLogger(tb) // first, so that it ends last
	opts = append([]node.Option{node.WithLogger(logger), node.WithTimeout(nodeTimeout)}, opts...)
	fleet, err := redistest.StartEmbedded(n)
	if err != nil {
		tb.Fatalf("quorumtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := fleet.Stop(); err != nil {
			tb.Errorf("quorumtest: %v", err)
		}
	})
	var members []string
	for _, master := range fleet.Masters {
		members = append(members, master.Addr())
	}
	for _, url := range fleet.URLs() {
		// It is safe to admit them: no master of this process has granted anything.
		if err := admit(url, members, opts); err != nil {
			tb.Fatalf("quorumtest: %v", err)
		}
	}
	m := &Masters{
		tb: tb, fleet: fleet, nodeOpts: opts, clock: fakeclock.New(), logger: logger, patience: defaultPatience, stopped: map[int]bool{},
	}
	m.clock.SetRate(1)
	return m
}

func admit(url string, members []string, opts []node.Option) error {
	n, err := node.Open(url, opts...)
	if err != nil {
		return err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(context.Background(), defaultPatience)
	defer cancel()
	return operator.AdmitMembers(ctx, n, members)
}

// URLs returns the masters' URLs, in the order in which [Masters.Stop] counts them. Every locker of
// a test must be given all of them, and no other names for them: the masters refuse a locker with
// another list.
func (m *Masters) URLs() []string { return m.fleet.URLs() }

// Clock returns the clock of the masters' lockers. It runs like any clock, and
// [Masters.FastForward] moves it.
func (m *Masters) Clock() clock.Clock { return m.clock }

// Options returns the options of the masters' lockers, for a locker that the test or the service
// opens itself: [Masters.Clock], the node options of [Start], and a logger to the test's output.
// Later options win.
//
// A locker without them doesn't notice [Masters.FastForward], and fails on a machine that stands
// still for longer than [node.DefaultTimeout].
func (m *Masters) Options() []quorum.Option {
	return []quorum.Option{WithClock(m.clock), quorum.WithLogger(m.logger), quorum.WithNodeOptions(m.nodeOpts...)}
}

// Locker returns a locker over all the masters, by the rule of package redlock. The end of the test
// closes it. Lockers act like different processes. Options are as for
// [redlock.Open], and come after [Masters.Options]. It logs to the test's output, which is shown
// if the test fails; [quorum.WithLogger] names another logger. Locker fails the test if redlock.Open
// returns an error, and for an even number of masters.
func (m *Masters) Locker(opts ...quorum.Option) *quorum.Locker {
	m.tb.Helper()
	if n := len(m.URLs()); n%2 == 0 {
		m.tb.Fatalf("quorumtest: redlock needs an odd number of masters, not %d", n)
	}
	return m.open(quorum.Majority, opts)
}

func (m *Masters) open(rule quorum.Rule, opts []quorum.Option) *quorum.Locker {
	m.tb.Helper()
	locker, err := quorum.Open(m.URLs(), rule, append(m.Options(), opts...)...)
	if err != nil {
		m.tb.Fatalf("quorumtest: %v", err)
	}
	m.tb.Cleanup(func() { locker.Close() })
	return locker
}
