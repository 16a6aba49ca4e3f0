package leader_test

import (
	"context"
	"iter"
	"os"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
)

// seen is a pair of Observe.
type seen struct {
	leader.Leader
	err error
}

// observe collects the pairs of Observe until the function that it returns is called.
func (c *cluster) observe(by *leader.Candidate) (pairs <-chan seen, stop func()) {
	ctx, cancel := context.WithCancel(c.Context())
	all := make(chan seen, 100)
	go func() {
		defer close(all)
		for now, err := range by.Observe(ctx) {
			all <- seen{now, err}
		}
	}()
	return all, cancel
}

// Other processes see which process leads. Observe reports it even if it becomes known later.
func TestIdentityOfTheLeader(t *testing.T) {
	inCluster(t, func(c *cluster) {
		leads := c.process(quorum.WithLabel("10.0.0.7:8080"))
		a := c.candidate(leads)
		term := c.campaign(a)
		synctest.Wait() // the identity is written behind the grant
		key := "quorumlock:locker:" + leads.ID()
		for _, by := range []*leader.Candidate{a, c.candidate(c.process())} {
			now := testkit.Got(by.Leader(c.Context()))(c)
			testkit.Check(c, now.Identity == leads.Identity() && now.Identity.Label == "10.0.0.7:8080" &&
				now.Identity.PID == os.Getpid(), "%+v leads, want %+v", now, leads.Identity())
		}
		for _, m := range c.world.Masters {
			m.Set(key, "") // as masters that do not know it
		}
		pairs, stop := c.observe(c.candidate(c.process()))
		defer stop()
		for _, want := range []quorum.Identity{{}, leads.Identity()} { // it is written again every 15 s
			got := <-pairs
			testkit.Must(c, got.err)
			testkit.Equal(c, got.Leader, leader.Leader{ID: term.ID(), Identity: want}, "who leads")
		}
		c.resign(term)
		got := <-pairs
		testkit.Check(c, got.err == nil && got.Leader == (leader.Leader{}), "nobody leads: %+v, %v", got.Leader, got.err)
	})
}

func TestObserveEnds(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p := c.process()
		a := c.candidate(p)
		for range a.Observe(c.Context()) {
			break
		}
		ended, cancel := context.WithCancel(c.Context())
		cancel()
		for got, err := range a.Observe(ended) {
			c.Errorf("after the context has ended: %q, %v", got.ID, err)
		}
		// One sequence, used twice.
		sequence := a.Observe(c.Context())
		for range 2 {
			next, stop := iter.Pull2(sequence)
			got, err, ok := next()
			testkit.Check(c, ok && err == nil && got.ID == "", "%q, %v, %v", got.ID, err, ok)
			stop()
		}
		pairs, stop := c.observe(a)
		defer stop()
		<-pairs
		p.Close()
		testkit.Is(c, (<-pairs).err, quorum.ErrClosed, "Observe")
		_, more := <-pairs
		testkit.Check(c, !more, "Observe goes on after Close")
		testkit.Is(c, testkit.ErrorOf(a.Leader(c.Context())), quorum.ErrClosed, "Leader")
	})
}
