package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// The lease of a lock ends after the masters have confirmed, and before their replies arrive.
func TestAConfirmationAfterTheLossIsNone(t *testing.T) {
	for what, call := range map[string]func(l *Lock) error{
		"Extend":    func(l *Lock) error { return l.Extend(context.Background(), 5*time.Second) },
		"Downgrade": func(l *Lock) error { return l.Downgrade(context.Background()) },
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				held := c.lock(c.process(WithFixedLease(500*time.Millisecond)), "a")
				synctest.Wait()
				c.delay(800 * time.Millisecond) // of the reply, to what is carried out already
				if err := call(held); !errors.Is(err, ErrLost) || errors.Is(err, ErrUnavailable) {
					t.Error(err)
				}
			})
		})
	}
}

// The attempt at a slot begins at another node than the one that gave the hint: if that is alone in
// having the slot free, its vote would have to be given back.
func TestASlotsProbeAvoidsTheNodeOfTheHint(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for range 6 {
			var mu sync.Mutex
			var asked []int
			for i := range c.masters {
				each := func(script string) {
					if mu.Lock(); script == "slots" || script == "acquire" || script == "acquires" {
						asked = append(asked, i)
					}
					mu.Unlock()
				}
				c.on[i].Store(&each)
			}
			lock, _ := l.Semaphore("a", 100).wanted(1, 1).slots.attempt(t.Context(), l.set, queue.Turn{Approach: waiting.ProbeFirst, Published: -1})
			synctest.Wait()
			if len(asked) < 2 || asked[0] == asked[1] || slices.Index(asked[1:], asked[0]) < 1 {
				t.Errorf("masters were asked in the order %v", asked)
			}
			c.unlock(lock)
		}
	})
}

func TestDeadlineIsZeroAfterClose(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		l.Close()
		if at := held.Deadline(); !at.IsZero() {
			t.Error(at)
		}
	})
}

// An extension whose context has ended asks no node, so the deadline stays. It says so of a lock that is
// held: else why it is not.
func TestExtendWithAContextThatHasEnded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		held := c.lock(c.process(WithLease(10*time.Second)), "a")
		synctest.Wait()
		before, calls := held.Deadline(), c.calls.Load()
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := held.Extend(ctx, 20*time.Second); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if after := held.Deadline(); c.calls.Load() != calls || !after.Equal(before) {
			t.Errorf("%d calls, and the deadline moved by %v", c.calls.Load()-calls, after.Sub(before))
		}
		c.unlock(held)
		if err := held.Extend(held.Context(), time.Second); !errors.Is(err, ErrNotHeld) {
			t.Error(err)
		}
	})
}
