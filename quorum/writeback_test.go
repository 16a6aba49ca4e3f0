package quorum

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// high is a counter that raiseCounters has raised.
const high = 1 << 51

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
	c.raiseCounters(l, 0)
	first, third := make(chan struct{}), make(chan struct{})
	defer close(third)
	c.before(0, func() { <-first })
	c.before(2, func() { <-third })
	var ran int
	c.before(1, func() {
		if ran++; again && ran == 1 {
			c.hangUp(1)
		}
	})
	done := make(chan lockResult, 1)
	start(0, done, func() (*Lock, error) { return l.TryLock(c.t.Context(), "a") })
	testkit.Check(c.t, (ran > 1) == again, "the second master has run %d scripts", ran)
	c.masters[1].Set(scripts.NewName("a").Counter(), strconv.Itoa(high+9))
	close(first)
	got := c.next(done, shortly)
	require(c.t, got.err == nil, "%v", got.err)
	return got.lock
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

// A repair carries the token to a master that forgot the lock and its counter. Without it the
// counter would start from the clock.
func TestRepairCarriesTheToken(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.raiseCounters(l, 0, 1, 2)
		held := c.lockKnown(l, "a")
		c.masters[0].Flush()
		time.Sleep(DefaultLease) // a renewal finds that the lock is gone, and then comes the repair
		synctest.Wait()
		if n := c.inspect(l).Nodes[0]; n.Owner != held.Owner() || n.Token != held.Token() {
			t.Errorf("the repaired master has %q with token %d, want %d", n.Owner, n.Token, held.Token())
		}
		c.unlock(held)
	})
}

// Another program has written one master's counter, almost as high as a token can be. No token begins
// there, and no other master's counter rises to it: the name goes on being locked, also once the key
// was deleted. The error of that master names the key.
func TestACounterThatNoLockReachesDoesNotSpread(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		key := scripts.NewName("a").Counter()
		last := uint64(0)
		lockTwice := func() {
			t.Helper()
			for range 2 {
				held := c.got(l.TryLock(t.Context(), "a"))
				synctest.Wait()
				require(t, held.Token() > last && held.Token() < 1<<52, "token %d after %d", held.Token(), last)
				last = held.Token()
				c.unlock(held)
				synctest.Wait()
			}
		}
		lockTwice()
		for _, stray := range []string{"9007199254740990", "9007199254740989", "4503599627370496"} {
			c.masters[0].Set(key, stray)
			lockTwice()
		}
		held := c.lockKnown(l, "a")
		c.must(held.Extend(t.Context(), l.set.terms.Lease))
		c.unlock(held)
		state, err := l.Inspect(t.Context(), "a")
		testkit.Check(t, err == nil && state.Token < 1<<52, "the counter is %d: %v", state.Token, err)
		if err := state.Nodes[0].Err; err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "Delete the key") {
			t.Errorf("the first master: %v", err)
		}
		c.masters[0].Set(key, "0")
		lockTwice()
		if state, err := l.Inspect(t.Context(), "a"); err != nil || state.Nodes[0].Err != nil || state.Nodes[0].Token == 0 {
			t.Errorf("the first master has %+v: %v", state.Nodes[0], err)
		}
	})
}

// If two masters have such a counter, the name is not locked, and the error says why. The third master's counter stays.
func TestCountersThatNoLockReachesOnAMajority(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.unlock(c.lock(l, "a"))
		for i := range 2 {
			c.masters[i].Set(scripts.NewName("a").Counter(), "9007199254740990")
		}
		wantError(t, errorOf(l.Lock(t.Context(), "a")), ErrPermanent, scripts.NewName("a").Counter())
		synctest.Wait()
		if state, _ := l.Inspect(t.Context(), "a"); state.Nodes[2].Token >= 1<<52 || state.Nodes[2].Owner != "" {
			t.Errorf("the third master: %+v", state.Nodes[2])
		}
	})
}

// attempts returns how many attempts a Locker made up to the lock's.
func attempts(lock *Lock) int {
	_, number, _ := strings.Cut(lock.Owner(), ":")
	n, _ := strconv.Atoi(number)
	return n
}
