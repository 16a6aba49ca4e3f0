package quorum

import (
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

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
	c.raiseCounters(l, 0)
	first, third := make(chan struct{}), make(chan struct{})
	defer close(third)
	c.before(0, func() { <-first })
	c.before(2, func() { <-third })
	var ran int
	c.before(1, func() {
		if ran++; again && ran == 1 {
			c.HangUp(1)
		}
	})
	done := make(chan lockResult, 1)
	start(0, done, func() (*Lock, error) { return l.TryLock(c.t.Context(), "a") })
	testkit.Check(c.t, (ran > 1) == again, "the second master has run %d scripts", ran)
	c.Masters[1].Set(scripts.NewName("a").Counter(), strconv.FormatUint(high+9, 10))
	close(first)
	got := c.next(done, shortly)
	testkit.Require(c.t, got.err == nil, "%v", got.err)
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

// attempts returns how many attempts a Locker made up to the lock's.
func attempts(lock *Lock) int {
	_, number, _ := strings.Cut(lock.Owner(), ":")
	n, _ := strconv.Atoi(number)
	return n
}
