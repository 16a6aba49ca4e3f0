package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/scripts"
)

// rivalHas has another owner hold the name "a" on some masters.
func (c *cluster) rivalHas(l *Locker, masters ...int) {
	c.t.Helper()
	for _, i := range masters {
		c.grants(l, i, rival, 1)
	}
}

const rival = "rival:1"

// grants has a master grant the name "a" to an owner, with a token above seed.
func (c *cluster) grants(l *Locker, master int, owner string, seed uint64) {
	c.t.Helper()
	c.ask(l, master, scripts.Acquire(scripts.AcquireArgs{Names: testkit.Names("a"), Owner: scripts.OwnerOf(owner), Depth: 1,
		Lease: l.set.terms.Millis, List: l.engine.Roster.List(), Seed: seed}))
}

// frees has a master release the name "a".
func (c *cluster) frees(l *Locker, master int, owner string) {
	c.t.Helper()
	c.ask(l, master, scripts.Release(testkit.Names("a"), scripts.OwnerOf(owner), 0))
}

// ask has a master run a script.
func (c *cluster) ask(l *Locker, master int, call scripts.Call) scripts.Reply {
	c.t.Helper()
	r := inside.Of(l.engine.Nodes[master]).Pipe("a").Do(c.t.Context(), call)
	c.must(r.Err)
	return r.Reply
}

// A call over idle connections to masters that stand still takes one timeout: half of it for the connections, which the
// network may have forgotten, and half for the next ones.
func TestIdleConnectionsCostNoSecondTimeout(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, l *Locker, held *Lock){
		"TryLock": func(ctx context.Context, l *Locker, _ *Lock) { l.TryLock(ctx, "b") },
		"Unlock":  func(ctx context.Context, _ *Locker, held *Lock) { held.Unlock(ctx) },
		"Ready":   func(ctx context.Context, l *Locker, _ *Lock) { l.Ready(ctx) },
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			var silent atomic.Bool
			p := c.NewProcess()
			p.Sends = func(int, []byte) bool { return !silent.Load() }
			l := c.locker(p.Nodes(c.nodeOptions()...))
			held := c.lock(l, "a")
			time.Sleep(2 * time.Second) // longer than a node's timeout
			silent.Store(true)
			began := time.Now()
			call(t.Context(), l, held)
			wantTook(t, began, 500*time.Millisecond, time.Second+engine.Grace)
			silent.Store(false)
			l.Close()
		})
	}
}

// A call that has begun before Close, and whose attempt begins when Close no longer waits for attempts,
// asks nobody: no node would take its release.
func TestNoAttemptBeginsAfterClose(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(), c.process()
		l.end = sync.OnceFunc(func() { l.endAll(true) })
		waiting, closed := make(chan struct{}), make(chan struct{})
		l.meter.events.Post(func() { <-waiting }) // the last that Close waits for
		startClose := sync.OnceFunc(func() {
			go func() {
				l.Close()
				close(closed)
			}()
			synctest.Wait()
		})
		endClose := sync.OnceFunc(func() {
			close(waiting)
			<-closed
		})
		ctx := watched(watched(t.Context(), startClose, "Value"), endClose, "Done")
		wantError(t, errorOf(l.TryLock(ctx, "a")), ErrClosed, ErrNotAcquired)
		endClose()
		synctest.Wait()
		c.wantNoOwners(other)
	})
}

// readClock counts how often it is read.
type readClock struct {
	clock.Clock
	reads atomic.Int64
}

func (c *readClock) Now() clock.Instant {
	c.reads.Add(1)
	return c.Clock.Now()
}

// A lock and its release read the clock four times: when the call begins, before the requests are
// sent, at the commit and at the release. Each reading is a system call. The last master's grant is read once more if it
// arrives between commit and release.
func TestClockReadsOfAPair(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		counted := &readClock{Clock: fakeclock.Monotonic()}
		l := c.process(withClock(counted))
		c.unlock(c.lock(l, "a")) // timers are set, and the rtt has its sample
		least := int64(math.MaxInt64)
		for range 20 {
			synctest.Wait()
			before := counted.reads.Load()
			c.unlock(c.lock(l, "a"))
			least = min(least, counted.reads.Load()-before)
		}
		testkit.Equal(t, least, 4, "readings of the clock")
	})
}

// The attempt at a slot begins at another node than the one that gave the hint: if that is alone in
// having the slot free, its vote would have to be given back.
func TestASlotsProbeAvoidsTheNodeOfTheHint(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for range 6 {
			var mu sync.Mutex
			var asked []int
			c.Before(func(s world.Script) {
				if mu.Lock(); s.Name == "slots" || s.Name == "acquire" || s.Name == "acquires" {
					asked = append(asked, s.Master)
				}
				mu.Unlock()
			})
			l.room.waitlist.History.Unsubscribed(queue.NewSlotsKey("a", 100).Hash(), 1, l.engine.Clock.Now()) // so it probes
			lock := c.got(NewSemaphore(l, "a", 100).Acquire(t.Context()))
			synctest.Wait()
			testkit.Check(t, len(asked) >= 2 && asked[0] != asked[1] && slices.Index(asked[1:], asked[0]) >= 1,
				"masters were asked in the order %v", asked)
			c.unlock(lock)
		}
	})
}

// high is a counter that raiseCounters has raised.
const high uint64 = 1 << 51

// raiseCounters raises the counter of the name "a" on some masters, as an earlier holder does.
func (c *cluster) raiseCounters(l *Locker, masters ...int) {
	c.t.Helper()
	for _, i := range masters {
		c.grants(l, i, "before:1", high)
		c.frees(l, i, "before:1")
	}
}

// between acquires a lock whose token is the first master's. The second master has granted,
// and a neighbour counts up there before the token is written back. When again is true, the
// connection died with the second master's reply, and the request was resent.
func (c *cluster) between(l *Locker, again bool) *Lock {
	c.t.Helper()
	got := c.betweenWithin(c.t.Context(), l, again, func() {})
	testkit.Require(c.t, got.err == nil, "%v", got.err)
	return got.lock
}

// betweenWithin is between for a call with a context. later is called before what the first master runs after the grant.
func (c *cluster) betweenWithin(ctx context.Context, l *Locker, again bool, later func()) lockResult {
	c.t.Helper()
	c.raiseCounters(l, 0)
	first, third := make(chan struct{}), make(chan struct{})
	defer close(third)
	granted := false
	c.before(0, func() {
		if granted {
			later()
		}
		<-first
		granted = true
	})
	c.before(2, func() { <-third })
	var ran int
	c.before(1, func() {
		if ran++; again && ran == 1 {
			c.HangUp(1)
		}
	})
	done := make(chan lockResult, 1)
	start(0, done, func() (*Lock, error) { return l.TryLock(ctx, "a") })
	testkit.Check(c.t, (ran > 1) == again, "the second master has run %d scripts", ran)
	c.Masters[1].Set(scripts.NewName("a").Counter(), strconv.FormatUint(high+9, 10))
	close(first)
	return c.next(done, shortly)
}

// A grant of another name that shares the counter fails no attempt: the owner, whose request went
// out once, holds by the grant that was read.
func TestTokenIsWrittenBackBesideANeighbours(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		lock := c.between(c.process(), false)
		testkit.Check(t, lock.Token() == high+1 && attempts(lock) == 1,
			"the token is %d after %d attempts, want %d after one", lock.Token(), attempts(lock), high+1)
		c.unlock(lock)
	})
}

// A request that was resent may have been granted twice, with another owner in between, where the
// counter has moved on. The call tries once more.
func TestTokenIsNotWrittenBackToAnotherGrant(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		lock := c.between(c.process(), true)
		testkit.Check(t, lock.Token() == high+10 && attempts(lock) == 2,
			"the token is %d after %d attempts, want %d after two", lock.Token(), attempts(lock), high+10)
		c.unlock(lock)
	})
}

// It does not if its context has ended meanwhile.
func TestACallThatHasEndedTriesNoMore(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		ctx, cancel := context.WithCancel(t.Context())
		got := c.betweenWithin(ctx, l, true, cancel)
		wantError(t, got.err, context.Canceled, "the token counter has moved on since the grant")
	})
}

// attempts returns how many attempts a Locker made up to the lock's.
func attempts(lock *Lock) int {
	_, number, _ := strings.Cut(lock.Owner(), ":")
	n, _ := strconv.Atoi(number)
	return n
}

// over makes a Locker whose nodes are masters of the cluster, by their numbers, or cannot connect
// for an error. wait is called before something is sent to a master.
func (c *cluster) over(wait func(master int), masters ...any) *Locker {
	c.t.Helper()
	p := c.NewProcess()
	p.Sends = func(master int, _ []byte) bool { wait(master); return true }
	var nodes []*node.Node
	for i, to := range masters {
		var n *node.Node
		var err error
		if number, ok := to.(int); ok {
			n, err = p.Node(number, c.nodeOptions()...)
		} else {
			n, err = node.New(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, to.(error) }},
				append(c.nodeOptions(), node.WithName(fmt.Sprint("other ", i)))...)
			c.t.Cleanup(func() { n.Close() })
		}
		c.must(err)
		nodes = append(nodes, n)
	}
	return c.locker(nodes)
}

// overDead is over with master 1 dead from the Locker's making on.
func (c *cluster) overDead(masters ...any) *Locker {
	c.t.Helper()
	var dead atomic.Bool
	over := make(chan struct{})
	l := c.over(func(master int) {
		if master == 1 && dead.Load() {
			<-over
		}
	}, masters...)
	c.t.Cleanup(func() { close(over) })
	dead.Store(true)
	return l
}

// nameAt returns a name whose attempts begin with that node.
func nameAt(l *Locker, first int) string {
	for i := 0; ; i++ {
		name := fmt.Sprint("name ", i)
		if firstNode(l, name) == first {
			return name
		}
	}
}

// A wrong list of masters is a permanent error also while one host is down: each attempt hears the
// masters that are left before it is judged.
func TestAPermanentErrorIsFoundWhileAHostIsDown(t *testing.T) {
	gone, wrong := errors.New("no route"), redis.Error("WRONGPASS invalid username-password pair")
	for what, masters := range map[string][]any{
		"one down, two refuse the list":                          {0, 1, gone},
		"one down, one refuses the password, one the list":       {gone, wrong, 1},
		"one refuses the password, one down, one the list":       {wrong, gone, 1},
		"two down, three refuse the list":                        {0, 1, 2, gone, gone},
		"one down, two refuse the password, two refuse the list": {gone, wrong, wrong, 0, 1},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			c.process()                    // gives the masters their list
			l := c.over(func(master int) { // they do not answer at one time; a script's text is several writes
				time.Sleep(time.Duration(master) * time.Millisecond)
			}, masters...)
			for first := range masters {
				name := nameAt(l, first)
				for method, lock := range map[string]func(context.Context, ...string) (*Lock, error){
					"TryLock": l.TryLock, "Lock": l.Lock,
				} {
					began := time.Now()
					ctx := testkit.Within(t, time.Second)
					wantError(t, errorOf(lock(ctx, name)), ErrPermanent, ErrMembership, of{[]any{method, first}})
					if took := time.Since(began); took >= engine.Grace { // it ends with the last answer
						t.Errorf("%s took %v", method, took)
					}
				}
			}
		})
	}
}

// No attempt waits for a dead node to learn whether its error is permanent: it takes no longer than
// its undo would have waited.
func TestNoAttemptWaitsForADeadNodeToLearnWhetherItsErrorIsPermanent(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.process()
		l := c.overDead(0, 1, errors.New("no route"))
		began := time.Now()
		_, err := l.TryLock(t.Context(), "a")
		wantTook(t, began, 0, engine.Grace)
		wantError(t, err, ErrUnavailable, not{ErrPermanent})
	})
}

// An attempt that fails without a permanent error asks and awaits nobody further.
func TestAnAttemptWithoutAPermanentErrorAsksNobodyFurther(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.process()
		gone := errors.New("no route")
		l := c.over(func(int) {}, 0, gone, gone)
		before := c.calls()
		_, err := l.TryLock(t.Context(), "a")
		testkit.Check(t, err != nil && !errors.Is(err, ErrPermanent), "%v", err)
		testkit.Equal(t, c.calls()-before, 0, "scripts that were run")
	})
}
