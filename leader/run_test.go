package leader_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
)

// Run returns what the function returns, after it has resigned.
func TestRunReturnsWithTheFunction(t *testing.T) {
	failed := errors.New("failed")
	for what, test := range map[string]struct {
		lead func(ctx context.Context, t *leader.Term) error
		want error // nil: none
	}{
		"nil":      {func(context.Context, *leader.Term) error { return nil }, nil},
		"an error": {func(context.Context, *leader.Term) error { return failed }, failed},
		"an error of another lock that was lost": {func(context.Context, *leader.Term) error { return quorum.ErrLost },
			quorum.ErrLost},
		"it resigned itself": {func(ctx context.Context, t *leader.Term) error { return t.Resign(ctx) }, nil},
	} {
		inCluster(t, func(c *cluster) {
			a, b := c.candidate(c.process().Locker), c.candidate(c.process().Locker)
			calls := 0
			err := a.Run(c.Context(), func(ctx context.Context, t *leader.Term) error {
				calls++
				c.wantLeader(b, t.ID())
				held, ok := quorum.FromContext(ctx, election)
				testkit.Check(c, ctx == t.Context() && ok && held.Token() == t.Token(),
					"%s: the context is not the term's", what)
				return test.lead(ctx, t)
			})
			testkit.Is(c, err, test.want, what)
			testkit.Equal(c, calls, 1, what)
			synctest.Wait()
			c.wantLeader(b, "")
		})
	}
}

// A locker's WithWait, which may be there for its other locks, ends Campaign and not Run: a candidate
// that gave up would leave the leader without a successor.
func TestRunOutlastsWithWait(t *testing.T) {
	inCluster(t, func(c *cluster) {
		first := c.campaign(c.candidate(c.process().Locker))
		b := c.candidate(c.process().With(quorum.WithWait(time.Second)))
		_, err := b.Campaign(c.Context())
		testkit.Check(c, errors.Is(err, quorum.ErrHeld), "Campaign returned %v, want ErrHeld after a second", err)
		ended := make(chan error, 1)
		led := false
		go func() {
			ended <- b.Run(c.Context(), func(context.Context, *leader.Term) error { led = true; return nil })
		}()
		time.Sleep(10 * time.Second)
		c.resign(first)
		testkit.Must(c, <-ended)
		testkit.Check(c, led, "it has not led")
	})
}

// Run resigns even if the function panics or ends its goroutine.
func TestRunResignsWhenTheFunctionDoesNotReturn(t *testing.T) {
	for what, end := range map[string]func(){"a panic": func() { panic("lead") }, "Goexit": runtime.Goexit} {
		inCluster(t, func(c *cluster) {
			a, b := c.candidate(c.process().Locker), c.candidate(c.process().Locker)
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				a.Run(c.Context(), func(context.Context, *leader.Term) error { end(); return nil })
			}()
			got := <-ended
			testkit.Check(c, (got == "lead") == (what == "a panic"), "%s: recovered %v", what, got)
			synctest.Wait()
			c.wantLeader(b, "")
			c.wantErr(a.IsLeader(c.Context()), leader.ErrNotLeader)
		})
	}
}

// The candidate leads until its function has returned, though the context has ended.
func TestRunResignsOnlyAfterTheFunction(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a, b := c.candidate(c.process().Locker), c.candidate(c.process().Locker)
		ctx, cancel := context.WithCancel(c.Context())
		leads, ends, ran := make(chan *leader.Term), make(chan struct{}), make(chan error)
		go func() {
			ran <- a.Run(ctx, func(ctx context.Context, t *leader.Term) error {
				leads <- t
				<-ctx.Done()
				<-ends // the work ends in good order
				testkit.Check(c, t.Valid(), "resigned, or lost, while the function ran")
				return ctx.Err()
			})
		}()
		term := <-leads
		cancel()
		time.Sleep(5 * lease)
		c.wantLeader(b, term.ID())
		close(ends)
		err := <-ran
		testkit.Check(c, errors.Is(err, context.Canceled) && err.Error() == context.Canceled.Error(),
			"Run returned %v, want what the function did", err)
		c.wantLeader(b, "") // a quorum had confirmed when Run returned, though its context had ended
	})
}

// A candidate whose term was lost campaigns again, after its function has returned.
func TestRunCampaignsAgain(t *testing.T) {
	failed := errors.New("failed")
	for what, lose := range map[string]func(c *cluster, p *process, other *leader.Candidate){
		"cut off for two leases": func(c *cluster, p *process, other *leader.Candidate) {
			p.cut.Store(true)
			term := c.campaign(other)
			time.Sleep(lease)
			p.cut.Store(false)
			c.resign(term)
		},
		"taken away by an operator": func(c *cluster, p *process, other *leader.Candidate) {
			testkit.Must(c, p.ForceUnlock(c.Context(), election))
			time.Sleep(lease)
		},
		"no master answers": func(c *cluster, p *process, other *leader.Candidate) {
			for _, m := range c.masters {
				m.Stop()
			}
			time.Sleep(2 * lease)
			for _, m := range c.masters {
				m.Start()
			}
		},
	} {
		inCluster(t, func(c *cluster) {
			p := c.process()
			a, b := c.candidate(p.Locker), c.candidate(c.process().Locker)
			ctx, cancel := context.WithCancel(c.Context())
			leads, ran := make(chan *leader.Term, 10), make(chan error)
			var running sync.Mutex
			go func() {
				ran <- a.Run(ctx, func(ctx context.Context, t *leader.Term) error {
					if !running.TryLock() {
						c.Errorf("%s: the function runs twice at one time", what)
						return nil
					}
					defer running.Unlock()
					leads <- t
					<-ctx.Done()
					time.Sleep(lease) // it takes its time, also after the loss
					return failed     // of the lost term: dropped
				})
			}()
			first := <-leads
			lose(c, p, b)
			c.wantErr(context.Cause(first.Context()), quorum.ErrLost)
			second := <-leads
			testkit.Check(c, second.Token() > first.Token() && second.Valid(),
				"%s: token %d after %d, valid %v", what, second.Token(), first.Token(), second.Valid())
			testkit.Must(c, a.IsLeader(c.Context()))
			cancel()
			c.wantErr(<-ran, failed) // this term was not lost
			testkit.Equal(c, len(leads), 0, what)
			synctest.Wait()
			c.wantLeader(b, "")
		})
	}
}

// A term whose context ends before its deadline is valid until lead has put its work away, and Run campaigns again.
func TestRunCampaignsAgainAfterAStop(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a := c.candidate(c.process().With(quorum.WithMaxHold(2*lease), quorum.WithStopBefore(lease/3)))
		b := c.candidate(c.process().Locker)
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		began, calls, failed := time.Now(), 0, errors.New("failed")
		err := a.Run(ctx, func(ctx context.Context, t *leader.Term) error {
			if calls++; calls == 2 {
				return failed
			}
			<-ctx.Done()
			c.wantErr(context.Cause(ctx), quorum.ErrLost)
			stopped := time.Since(began)
			testkit.Check(c, stopped <= 2*lease-lease/3 && t.Valid(), "it stopped after %v, valid %v", stopped, t.Valid())
			time.Sleep(lease / 4)
			c.wantLeader(b, t.ID())
			return failed // of the term that was stopped: dropped
		})
		testkit.Check(c, calls == 2 && errors.Is(err, failed) && !errors.Is(err, quorum.ErrLost),
			"%d calls, %v", calls, err)
	})
}

// A term that is lost after Run's context has ended still ends Run.
func TestRunDoesNotCampaignAfterItsContext(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p := c.process()
		ctx, cancel := context.WithCancel(c.Context())
		calls := 0
		err := c.candidate(p.Locker).Run(ctx, func(ctx context.Context, t *leader.Term) error {
			calls++
			p.cut.Store(true)
			cancel()
			time.Sleep(2 * lease)
			return ctx.Err()
		})
		c.wantErr(err, context.Canceled, quorum.ErrLost)
		testkit.Check(c, !errors.Is(err, quorum.ErrNotAcquired) && calls == 1,
			"Run campaigned after its context had ended: %v, %d calls", err, calls)
	})
}

// The end of the campaign ends Run, without a call.
func TestRunEndsWhileItCampaigns(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p := c.process()
		a, b := c.candidate(c.process().Locker), c.candidate(p.Locker)
		term := c.campaign(a)
		never := func(context.Context, *leader.Term) error {
			c.Error("two lead")
			return nil
		}
		ctx, cancel := context.WithCancel(c.Context())
		ran := make(chan error)
		go func() { ran <- b.Run(ctx, never) }()
		synctest.Wait()
		cancel()
		c.wantErr(<-ran, context.Canceled, quorum.ErrHeld)
		go func() { ran <- b.Run(c.Context(), never) }()
		synctest.Wait()
		p.Close()
		c.wantErr(<-ran, quorum.ErrClosed)
		_, err := b.Campaign(c.Context())
		c.wantErr(err, quorum.ErrClosed)
		c.resign(term)
	})
}

// Close ends the function's context, and Run once the function has returned.
func TestRunEndsWithTheLocker(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p := c.process()
		a, b := c.candidate(p.Locker), c.candidate(c.process().Locker)
		failed := errors.New("failed")
		leads, ran := make(chan struct{}), make(chan error)
		go func() {
			ran <- a.Run(c.Context(), func(ctx context.Context, t *leader.Term) error {
				close(leads)
				<-ctx.Done()
				c.wantErr(context.Cause(ctx), quorum.ErrClosed)
				return failed
			})
		}()
		<-leads
		p.Close()
		c.wantErr(<-ran, quorum.ErrClosed, failed)
		synctest.Wait()
		c.wantLeader(b, "") // the nodes are the caller's, and open: the release was sent
	})
}
