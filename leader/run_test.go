package leader_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

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
			a, b := c.candidate(c.process()), c.candidate(c.process())
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

// Run resigns even if the function panics or ends its goroutine.
func TestRunResignsWhenTheFunctionDoesNotReturn(t *testing.T) {
	for what, end := range map[string]func(){"a panic": func() { panic("lead") }, "Goexit": runtime.Goexit} {
		inCluster(t, func(c *cluster) {
			a, b := c.candidate(c.process()), c.candidate(c.process())
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				a.Run(c.Context(), func(context.Context, *leader.Term) error { end(); return nil })
			}()
			got := <-ended
			testkit.Check(c, (got == "lead") == (what == "a panic"), "%s: recovered %v", what, got)
			synctest.Wait()
			c.wantLeader(b, "")
			testkit.Is(c, a.IsLeader(c.Context()), leader.ErrNotLeader, what)
		})
	}
}
