package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
	"go.uber.org/goleak"
)

// cluster has three masters in memory and the processes that lock on them, in a synctest bubble: only waiting takes
// time there.
type cluster struct {
	*world.World
	t      *testing.T
	jammed atomic.Pointer[chan struct{}] // when set, nothing that is sent arrives until it is closed
	other  *Locker                       // another process, for tests that need one
}

// inCluster runs a test in a bubble, with a new cluster.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &cluster{World: world.New(t, 3), t: t}) })
}

// runInCluster is inCluster for a part of a test.
func runInCluster(t *testing.T, name string, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inCluster(t, test) })
}

// calls counts the scripts on all masters, without the introductions.
func (c *cluster) calls() int { return c.Ran() - c.Ran("introduce") }

// before makes a master call do before it answers a script, from now on.
func (c *cluster) before(master int, do func()) { c.on(func(string) { do() }, master) }

// on makes these masters, or all, call do with each script before they answer it, nil for nothing.
func (c *cluster) on(do func(script string), masters ...int) {
	if do == nil {
		c.Before(nil, masters...)
		return
	}
	c.Before(func(s world.Script) {
		if s.Name != "introduce" {
			do(s.Name)
		}
	}, masters...)
}

// jam keeps all that is sent from arriving, until goOn is called.
func (c *cluster) jam() (goOn func()) {
	over := make(chan struct{})
	c.jammed.Store(&over)
	return func() {
		c.jammed.Store(nil)
		close(over)
	}
}

// notAsked fails the test if a request for a lock reaches a master from now on. A survey may look at it.
func (c *cluster) notAsked(master int) {
	c.on(func(script string) {
		testkit.Check(c.t, script != "acquire" && script != "acquires", "master %d was asked", master)
	}, master)
}

// process makes a Locker with connections of its own.
func (c *cluster) process(opts ...Option) *Locker {
	c.t.Helper()
	p := c.NewProcess()
	p.Sends = func(int, []byte) bool {
		if jammed := c.jammed.Load(); jammed != nil {
			<-*jammed
		}
		return true
	}
	l := c.locker(p.Nodes(c.nodeOptions()...), opts...)
	synctest.Wait()
	return l
}

func (c *cluster) nodeOptions() []node.Option {
	return []node.Option{node.WithTimeout(time.Second), node.WithoutQuarantine()}
}

func (c *cluster) locker(nodes []*node.Node, opts ...Option) *Locker {
	c.t.Helper()
	l := testkit.Opened(New(nodes, Majority, append([]Option{withClock(c.Clock), withRand(rand.NewPCG(1, 2))}, opts...)...))(c.t)
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
		testkit.Check(t, has != isNot, "the error has %q: %v, want %v: %v %+v", want, has, !isNot, err, wants)
	}
}

var errorOf = testkit.ErrorOf

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
	testkit.Equal(c.t, queuesOf(l), 0, "queues that are left")
}

// queuesOf returns how many queues the Locker has.
func queuesOf(l *Locker) int {
	return reflect.ValueOf(l.room.waitlist).Elem().FieldByName("queues").Len()
}

// joins puts a call for the name "a" into its queue.
func (l *Locker) joins() *queue.Place {
	return l.room.waitlist.Enter(l.newCall(context.Background(), []string{"a"}).wants, l.set.retry)
}

// attempts makes an attempt of a call.
func (l *Locker) attempts(ctx context.Context, approach waiting.Approach, names ...string) (*call, queue.Result) {
	c := l.newCall(ctx, names)
	return c, c.attempt(ctx, queue.Due{Approach: approach, Published: -1})
}

// subscriptions counts the subscriptions to a name's channel, on all masters.
func (c *cluster) subscriptions(name string) (sum int) {
	for _, m := range c.Masters {
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

// TestMain silences the default logger: the log of a test that wants one is set by it.
func TestMain(m *testing.M) {
	world.OneProcessor()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}
