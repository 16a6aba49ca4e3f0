package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
)

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
