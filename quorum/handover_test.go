package quorum

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/tickets"
	"github.com/quorumlock/quorumlock/scripts"
)

func (c *cluster) handOver(lock *Lock) string {
	c.t.Helper()
	ticket := testkit.Got(lock.HandOver(c.t.Context()))(c.t)
	synctest.Wait() // all masters have it
	return ticket
}

func (c *cluster) takeOver(l *Locker, ticket string) *Lock {
	c.t.Helper()
	return c.got(l.TakeOver(c.t.Context(), ticket))
}

// A call that gives up after it has won has taken the lock from its predecessor.
func TestTakeOverThatIsGivenUpTooLate(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		ticket := c.handOver(c.lock(l, "a"))
		ctx, end := context.WithCancel(t.Context())
		c.before(1, end) // with its grant, which is the second
		c.before(2, func() { time.Sleep(10 * time.Millisecond) })
		wantError(t, errorOf(l.TakeOver(ctx, ticket)), context.Canceled)
		synctest.Wait()
		c.before(1, func() {})
		c.before(2, func() {})
		wantError(t, errorOf(l.TakeOver(t.Context(), ticket)), ErrNotAcquired, ErrLost, not{ErrHeld})
		c.unlock(c.lock(l, "a"))
	})
}

// A request of the first holder for a grant that dies with its connection is not sent again after
// handing over: the lease would last longer on that master.
func TestHandOverAbandonsRequests(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const lease = 900 * time.Millisecond
		l := c.process(WithFixedLease(lease))
		answers := make(chan struct{})
		c.before(2, func() { <-answers })
		c.handOver(c.lock(l, "a"))
		time.Sleep(lease - shortly)
		c.HangUp(2)
		c.before(2, func() {})
		close(answers)
		time.Sleep(2 * shortly)
		testkit.Check(t, !slices.Contains(c.Masters[2].Keys(), "a"), "the third master has %q", c.Masters[2].Keys())
	})
}

// Do leaves a lock alone that its function has handed over.
func TestDoThatHandsOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		var ticket string
		err := l.Do(t.Context(), func(ctx context.Context, lock *Lock) (err error) {
			ticket, err = lock.HandOver(ctx)
			return err
		}, "a")
		c.must(err)
		c.unlock(c.takeOver(l, ticket))
	})
}

func TestTicketsThatAreNoTickets(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, good := c.process(), tickets.Ticket{Owner: scripts.OwnerOf("locker:1"), Token: 7, Names: []string{"a"}}
		for what, names := range map[string][]string{
			"no names": nil, "our keys": {scripts.MarkerKey}, "two alike": {"a", "a"},
		} {
			bad := good
			bad.Names = names
			lock, err := l.TakeOver(t.Context(), bad.String())
			testkit.Check(t, errors.Is(err, ErrInvalid) && len(err.Error()) <= 300, "%s: %v, %v", what, lock, err)
		}
		text := good.String()
		const cutOff = "the text is no ticket of HandOver: it is cut off"
		wantError(t, errorOf(l.TakeOver(t.Context(), text[:len(text)-4])), ErrInvalid, cutOff)
	})
}
