package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/bubble"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/scripts"
)

// cluster has three masters in memory and the processes that lock on them, in a synctest bubble: only waiting takes
// time there.
type cluster struct {
	t       *testing.T
	masters []*fakeredis.Master
	calls   atomic.Int64                           // of scripts, on all masters; without the introductions
	on      [3]atomic.Pointer[func(script string)] // when set, what a master does before it answers a script
	stalled atomic.Pointer[chan struct{}]          // when set, no script is answered until it is closed
	jammed  atomic.Pointer[chan struct{}]          // when set, nothing that is sent arrives until it is closed

	connsMu       sync.Mutex
	conns         [3][]net.Conn // the masters' ends
	introductions atomic.Int64  // writings of identities, on all masters
	questions     atomic.Int64  // of who holds a lock, on all masters

	quarantines bool // of the nodes of processes made from now on

	rate float64 // of the masters' clocks, 0 for 1; set before the first process

	other *Locker // another process, for tests that need one
}

// pipeConn is a client's end of a connection to a master.
type pipeConn struct {
	net.Conn
	cluster *cluster
}

func (r pipeConn) Write(p []byte) (int, error) {
	if jammed := r.cluster.jammed.Load(); jammed != nil {
		<-*jammed
	}
	return r.Conn.Write(p)
}

// inCluster runs a test in a bubble, with a new cluster.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		began := time.Now()
		now := func() time.Time {
			return began.Add(time.Duration(float64(time.Since(began)) * cmp.Or(c.rate, 1)))
		}
		for i := range 3 {
			m := fakeredis.New(now, uint64(i+1))
			m.Trace = func(_, script string, _ []string, _ any, _ error) {
				switch script {
				case "introduce":
					c.introductions.Add(1)
					return
				case "who", "inspect":
					c.questions.Add(1)
				}
				c.calls.Add(1)
				if before := c.on[i].Load(); before != nil {
					(*before)(script)
				}
				if stalled := c.stalled.Load(); stalled != nil {
					<-*stalled
				}
			}
			c.masters = append(c.masters, m)
		}
		t.Cleanup(func() {
			for _, m := range c.masters {
				m.Stop()
			}
		})
		test(t, c)
	})
}

// runInCluster is inCluster for a part of a test.
func runInCluster(t *testing.T, name string, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inCluster(t, test) })
}

// before makes a master call do before it answers a script, from now on.
func (c *cluster) before(master int, do func()) {
	each := func(string) { do() }
	c.on[master].Store(&each)
}

// onAll makes all masters call do with each script before they answer it, nil for nothing.
func (c *cluster) onAll(do *func(script string)) {
	for i := range c.on {
		c.on[i].Store(do)
	}
}

// stall keeps all masters from answering scripts, until goOn is called.
func (c *cluster) stall() (goOn func()) { return block(&c.stalled) }

// jam keeps all that is sent from arriving, until goOn is called.
func (c *cluster) jam() (goOn func()) { return block(&c.jammed) }

func block(at *atomic.Pointer[chan struct{}]) (goOn func()) {
	over := make(chan struct{})
	at.Store(&over)
	return func() {
		at.Store(nil)
		close(over)
	}
}

// notAsked fails the test if a request for a lock reaches a master from now on. A survey may look at it.
func (c *cluster) notAsked(master int) {
	each := func(script string) {
		testkit.Check(c.t, script != "acquire" && script != "acquires", "master %d was asked", master)
	}
	c.on[master].Store(&each)
}

// hangUp ends all connections to a master.
func (c *cluster) hangUp(master int) {
	c.connsMu.Lock()
	defer c.connsMu.Unlock()
	for _, conn := range c.conns[master] {
		conn.Close()
	}
	c.conns[master] = nil
}

// dial makes a connection to a master, and returns both ends.
func (c *cluster) dial(master int) (ours, theirs net.Conn) {
	ours, theirs = net.Pipe()
	go c.masters[master].Serve(theirs)
	return ours, theirs
}

// process makes a Locker with connections of its own.
func (c *cluster) process(opts ...Option) *Locker {
	c.t.Helper()
	var nodes []*node.Node
	for i := range c.masters {
		nodes = append(nodes, c.node(fmt.Sprint("master", i), !c.quarantines, func() (redis.Conn, error) {
			ours, theirs := c.dial(i)
			c.connsMu.Lock()
			c.conns[i] = append(c.conns[i], theirs)
			c.connsMu.Unlock()
			return redis.NewConn(pipeConn{ours, c}, 5*time.Second, 5*time.Second), nil
		}))
	}
	l := c.locker(nodes, opts...)
	synctest.Wait()
	return l
}

func (c *cluster) node(name string, trusts bool, dial func() (redis.Conn, error)) *node.Node {
	c.t.Helper()
	opts := []node.Option{node.WithName(name), node.WithTimeout(time.Second)}
	if trusts {
		opts = append(opts, node.WithoutQuarantine())
	}
	pool := &redis.Pool{Dial: dial}
	n, err := node.New(pool, opts...)
	c.must(err)
	c.t.Cleanup(func() { n.Close(); pool.Close() })
	return n
}

func (c *cluster) locker(nodes []*node.Node, opts ...Option) *Locker {
	c.t.Helper()
	l, err := New(nodes, Majority, append([]Option{withClock(bubble.Clock(c.t)), withRand(rand.NewPCG(1, 2))}, opts...)...)
	c.must(err)
	c.t.Cleanup(func() { l.Close() })
	return l
}

// lockResult is the result of a call of Lock by one of several waiters.
type lockResult struct {
	waiter int
	lock   *Lock
	err    error
}

// start makes a waiter's call in a goroutine, and returns when that call waits or has ended.
func start(waiter int, to chan<- lockResult, call func() (*Lock, error)) {
	go func() {
		lock, err := call()
		to <- lockResult{waiter, lock, err}
	}()
	synctest.Wait()
}

func startWaiter(ctx context.Context, l *Locker, waiter int, to chan<- lockResult, names ...string) {
	start(waiter, to, func() (*Lock, error) { return l.Lock(ctx, names...) })
}

// waits has a call wait for the names, and returns where its result comes.
func (c *cluster) waits(l *Locker, names ...string) <-chan lockResult {
	result := make(chan lockResult, 1)
	startWaiter(c.t.Context(), l, 0, result, names...)
	return result
}

func (c *cluster) must(err error) {
	c.t.Helper()
	testkit.Must(c.t, err)
}

// got is the lock of a call that must succeed.
func (c *cluster) got(lock *Lock, err error) *Lock {
	c.t.Helper()
	c.must(err)
	return lock
}

// not is an error, or a text, that an error must not contain.
type not struct{ what any }

// of names what an error is about, for the message.
type of struct{ what any }

// wantError fails the test unless an error wraps each error that is wanted, and its text has each text. It wants no
// error for nil.
func wantError(t *testing.T, err error, wants ...any) {
	t.Helper()
	for _, want := range wants {
		without, isNot := want.(not)
		if isNot {
			want = without.what
		}
		has := false
		switch want := want.(type) {
		case of:
			continue
		case nil:
			has = err == nil
		case error:
			has = errors.Is(err, want)
		case string:
			has = strings.Contains(fmt.Sprint(err), want)
		}
		if has == isNot {
			t.Errorf("the error has %q: %v, want %v: %v %+v", want, has, !isNot, err, wants)
		}
	}
}

// errorOf is the error of a call, whatever else it returns.
func errorOf(_ any, err error) error { return err }

// require ends the test unless the claim is true.
func require(t *testing.T, claim bool, format string, args ...any) {
	t.Helper()
	if !claim {
		t.Fatalf(format, args...)
	}
}

// wantTook fails the test unless that much time has passed since then.
func wantTook(t *testing.T, began time.Time, least, most time.Duration) {
	t.Helper()
	took := time.Since(began)
	testkit.Check(t, took >= least && took <= most, "it took %v, want %v to %v", took, least, most)
}

func (c *cluster) lock(l *Locker, names ...string) *Lock {
	c.t.Helper()
	return c.got(l.Lock(c.t.Context(), names...))
}

func (c *cluster) unlock(lock *Lock) {
	c.t.Helper()
	c.must(lock.Unlock(context.Background()))
}

// next takes the next result, which must come within most.
func (c *cluster) next(from <-chan lockResult, most time.Duration) lockResult {
	c.t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(most):
		c.t.Fatalf("no call of Lock has returned after %v", most)
		return lockResult{}
	}
}

// nextLock is the lock of the next result, which must be one.
func (c *cluster) nextLock(from <-chan lockResult, most time.Duration) *Lock {
	c.t.Helper()
	got := c.next(from, most)
	return c.got(got.lock, got.err)
}

// shortly is far below every poll in these tests.
const shortly = 100 * time.Millisecond

// aPoll is above the longest poll of a waiter with the default retry bounds.
const aPoll = 1100 * time.Millisecond

// wantNoQueues fails the test if a queue of waiters is left.
func (c *cluster) wantNoQueues(l *Locker) {
	c.t.Helper()
	if n := ofList(l, "queues"); n != 0 {
		c.t.Errorf("%d queues are left", n)
	}
}

// ofList returns how many queues the Locker has: those with waiters, or spare ones.
func ofList(l *Locker, field string) int {
	return reflect.ValueOf(l.core.waitlist).Elem().FieldByName(field).Len()
}

// joins puts a call for the name "a" into its queue.
func (l *Locker) joins() *queue.Place {
	p := l.takePlace(l.wants([]string{"a"}))
	return &p
}

// subscriptions counts the subscriptions to a name's channel, on all masters.
func (c *cluster) subscriptions(name string) (sum int) {
	for _, m := range c.masters {
		sum += m.Listening(scripts.Channel(name))
	}
	return sum
}

// withClock and withRand are package quorumtest's, which this package cannot import.
func withClock(c clock.Clock) Option {
	return inside.Option[Option](func(s *inside.Settings) { s.Clock = c })
}

func withRand(source rand.Source) Option {
	return inside.Option[Option](func(s *inside.Settings) { s.Random = source })
}

// wantNothingScheduled wants the schedule to be empty.
func (c *cluster) wantNothingScheduled(l *Locker) {
	c.t.Helper()
	if n := l.core.Held(); n > 0 {
		c.t.Errorf("%d holds are left in the schedule", n)
	}
}
