package leader_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

// A Candidate is an Elector of github.com/go-co-op/gocron/v2.
var _ interface {
	IsLeader(context.Context) error
} = (*leader.Candidate)(nil)

func TestNewRefuses(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p, closed := c.process(), c.process()
		closed.Close()
		for what, test := range map[string]struct {
			locker *quorum.Locker
			name   string
			opts   []leader.Option
			want   error
		}{
			"a nil locker":            {nil, election, nil, quorum.ErrInvalid},
			"no name":                 {p, "", nil, quorum.ErrInvalid},
			"a name of the library's": {p, "quorumlock:marker", nil, quorum.ErrInvalid},
			"a long name":             {p, strings.Repeat("x", 4097), nil, quorum.ErrInvalid},
			"a nil option":            {p, election, []leader.Option{nil}, quorum.ErrInvalid},
			"no interval":             {p, election, []leader.Option{leader.WithObserveInterval(0)}, quorum.ErrInvalid},
			"a forgotten unit":        {p, election, []leader.Option{leader.WithObserveInterval(500)}, quorum.ErrInvalid},
			"a locker's bad option":   {p.With(quorum.WithLease(0)), election, nil, quorum.ErrInvalid},
			"a closed locker":         {closed, election, nil, quorum.ErrClosed},
		} {
			made, err := leader.New(test.locker, test.name, test.opts...)
			testkit.Check(c, made == nil && errors.Is(err, test.want),
				"%s: %v, %v; want an error that wraps %q", what, made, err, test.want)
		}
		before := c.world.Ran()
		c.candidate(p)
		synctest.Wait()
		testkit.Equal(c, c.world.Ran()-before, 0, "scripts run for New")
	})
}

// askedContext calls a function whenever it is asked.
type askedContext struct {
	context.Context
	asked func()
}

func (c askedContext) Done() <-chan struct{} { c.asked(); return c.Context.Done() }
func (c askedContext) Err() error            { c.asked(); return c.Context.Err() }
func (c askedContext) Value(key any) any     { c.asked(); return c.Context.Value(key) }

// A caller's context may ask who leads: none is asked with the candidate's mutex locked.
func TestContextsMayAskTheCandidate(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a := c.candidate(c.process())
		asked := 0
		ctx := askedContext{c.Context(), func() {
			asked++
			testkit.Check(c, testkit.Returns(func() { a.ID() }), "a context is asked with the mutex locked")
		}}
		term, err := a.Campaign(ctx)
		testkit.Check(c, err == nil && a.IsLeader(ctx) == nil, "%v", err)
		testkit.Must(c, term.Resign(ctx))
		testkit.Check(c, asked > 5, "asked %d times: the test shows nothing", asked)
	})
}

// The flow of a term does not get the term again: it would be a second one with the same token.
func TestCampaignInsideATerm(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p := c.process()
		a := c.candidate(p)
		term := c.campaign(a)
		within, cancel := context.WithCancel(term.Context())
		defer cancel()
		for what, by := range map[string]*leader.Candidate{"the same": a, "another": c.candidate(p)} {
			got, err := by.Campaign(within)
			testkit.Check(c, got == nil && errors.Is(err, quorum.ErrInvalid), "%s candidate inside a term: %v, %v", what, got, err)
		}
		testkit.Check(c, term.Valid() && a.ID() == term.ID(), "that ended the term")
		synctest.Wait()
		state := testkit.Got(operator.Inspect(c.Context(), p, election))(c)
		testkit.Equal(c, state.Depth, 1, "the depth after a refused campaign")
		another := testkit.Got(leader.New(p, "another election"))(c)
		elsewhere := c.candidate(newCluster(c.T).process()) // the same name on other masters
		for _, by := range []*leader.Candidate{another, elsewhere} {
			inner := testkit.Got(by.Campaign(within))(c)
			c.resign(inner)
		}
		c.resign(term)
		c.wantLeader(a, "")
	})
}

// The candidates of one process, and several campaigns of one candidate, lead one after the other.
func TestConcurrentCampaigns(t *testing.T) {
	inCluster(t, func(c *cluster) {
		p := c.process()
		shared, own := c.candidate(p), c.candidate(p)
		var mu sync.Mutex
		var last uint64
		terms := 0
		var all sync.WaitGroup
		for i := range 12 {
			by := []*leader.Candidate{shared, own}[i%2]
			all.Go(func() {
				term, err := by.Campaign(c.Context())
				if err != nil {
					c.Error(err)
					return
				}
				testkit.Is(c, by.IsLeader(c.Context()), nil, "a candidate with a term")
				testkit.Equal(c, by.ID(), term.ID(), "the ID of a candidate with a term")
				mu.Lock()
				testkit.Check(c, term.Token() > last, "token %d after %d", term.Token(), last)
				last, terms = term.Token(), terms+1
				mu.Unlock()
				time.Sleep(time.Millisecond)
				testkit.Is(c, term.Resign(c.Context()), nil, "Resign")
			})
		}
		all.Wait()
		testkit.Equal(c, terms, 12, "terms")
	})
}
