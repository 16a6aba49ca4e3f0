package leader_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// seen is a pair of Observe, and when it came.
type seen struct {
	leader.Leader
	err error
	at  time.Time
}

// observe collects the pairs of Observe until the function that it returns is called.
func (c *cluster) observe(by *leader.Candidate) (pairs <-chan seen, stop func()) {
	ctx, cancel := context.WithCancel(c.Context())
	all := make(chan seen, 100)
	go func() {
		defer close(all)
		for now, err := range by.Observe(ctx) {
			all <- seen{now, err, time.Now()}
		}
	}()
	return all, cancel
}

func TestObserve(t *testing.T) {
	inCluster(t, func(c *cluster) {
		const interval = 100 * time.Millisecond
		p := c.process()
		a, b := c.candidate(c.process().Locker), c.candidate(c.process().Locker)
		pairs, stop := c.observe(c.candidate(p.Locker, leader.WithObserveInterval(interval)))
		within := interval + time.Second // two timeouts of a master
		next := func(what, id string, targets ...error) {
			c.Helper()
			began := time.Now()
			got := <-pairs
			testkit.Check(c, got.ID == id && (got.err != nil) == (targets != nil),
				"%s: %q, %v; want %q", what, got.ID, got.err, id)
			c.wantErr(got.err, targets...)
			took := got.at.Sub(began)
			testkit.Check(c, took <= within, "%s: seen after %v", what, took)
		}
		next("at first", "")
		first := c.campaign(a)
		next("a leads", first.ID())
		c.resign(first)
		next("nobody leads", "")
		second := c.campaign(b)
		next("b leads", second.ID())
		p.cut.Store(true)
		next("no master answers", "", quorum.ErrUnavailable)
		time.Sleep(2 * lease)
		p.cut.Store(false)
		within += 7500 * time.Millisecond // the longest pause between tries of masters that do not answer
		next("they answer, and b leads still", second.ID())
		time.Sleep(2 * lease)
		stop()
		got, more := <-pairs
		testkit.Check(c, !more, "after the end, or without a change: %q, %v", got.ID, got.err)
		c.resign(second)
	})
}

// Other processes see which process leads. Observe reports it even if it becomes known later.
func TestIdentityOfTheLeader(t *testing.T) {
	inCluster(t, func(c *cluster) {
		leads := c.labelled("10.0.0.7:8080")
		a := c.candidate(leads.Locker)
		term := c.campaign(a)
		synctest.Wait() // the identity is written behind the grant
		key := "quorumlock:locker:" + leads.ID()
		for _, by := range []*leader.Candidate{a, c.candidate(c.process().Locker)} {
			now, err := by.Leader(c.Context())
			testkit.Must(c, err)
			testkit.Check(c, now.Identity == leads.Identity() && now.Identity.Label == "10.0.0.7:8080" &&
				now.Identity.PID == os.Getpid(), "%+v leads, want %+v", now, leads.Identity())
		}
		for _, m := range c.masters {
			m.Set(key, "") // as masters that do not know it
		}
		pairs, stop := c.observe(c.candidate(c.process().Locker))
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
		a := c.candidate(p.Locker)
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
		c.wantErr((<-pairs).err, quorum.ErrClosed)
		_, more := <-pairs
		testkit.Check(c, !more, "Observe goes on after Close")
		_, err := a.Leader(c.Context())
		c.wantErr(err, quorum.ErrClosed)
	})
}

// A master that does not answer, or may have forgotten, is no witness that nobody leads.
func TestLeaderIsNotKnown(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p := c.process()
		a := c.candidate(p.Locker)
		term := c.campaign(a)
		synctest.Wait()
		c.masters[2].Flush() // the leader has two of three left, until its next renewal
		c.masters[0].Crash(fakeredis.Everything)
		_, err := a.Leader(c.Context())
		c.wantErr(err, quorum.ErrUnavailable)
		asked := errors.As(err, new(*quorum.Error))
		testkit.Check(c, !asked, "the test needs two masters that answer: %v", err)
		testkit.Check(c, term.Valid(), "the leader lost its term")
		c.masters[0].Start()
		synctest.Wait()
		time.Sleep(lease)
		c.wantLeader(a, term.ID())
		c.resign(term)
		c.masters[0].Crash(fakeredis.Nothing)
		c.wantLeader(a, "") // the two others are free
	})
}

func TestLeaderThatMastersForgot(t *testing.T) {
	inCluster(t, func(c *cluster) {
		const maxLease = 30 * time.Second
		p := c.process(node.WithMaxLease(maxLease))
		a := c.candidate(p.Locker)
		_, err := a.Leader(c.Context())
		c.wantErr(err, quorum.ErrQuarantined) // new masters may stand for old ones
		time.Sleep(maxLease)
		term := c.campaign(a)
		synctest.Wait()
		for _, m := range c.masters[:2] {
			m.Crash(fakeredis.Nothing)
			m.Start()
		}
		// The first client that asks for a grant marks the masters.
		brief, cancel := context.WithTimeout(c.Context(), lease/10)
		defer cancel()
		_, err = c.candidate(c.process(node.WithMaxLease(maxLease)).Locker).Campaign(brief)
		c.wantErr(err, context.DeadlineExceeded)
		testkit.Check(c, term.Valid(), "the leader knows already")
		_, err = a.Leader(c.Context())
		c.wantErr(err, quorum.ErrQuarantined)
		time.Sleep(lease)
		c.wantErr(context.Cause(term.Context()), quorum.ErrLost)
		time.Sleep(maxLease)
		c.wantLeader(a, "")
	})
}
