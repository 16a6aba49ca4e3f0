package leader_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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

// A call of Campaign that returns late, when its term is over, hides no later term of the candidate.
func TestATermThatIsOverHidesNoLaterOne(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var held atomic.Bool
		a := c.candidate(c.process().With(quorum.WithFixedLease(time.Second),
			quorum.WithHooks(quorum.Hooks{Acquired: func(*quorum.Lock) { held.Store(true) }})))
		late := make(chan error)
		go func() {
			_, err := a.Campaign(askedContext{c.Context(), func() {
				if held.Swap(false) {
					time.Sleep(1500 * time.Millisecond)
				}
			}})
			late <- err
		}()
		synctest.Wait()
		term := c.campaign(a)
		testkit.Must(c, <-late)
		testkit.Check(c, term.Valid() && a.ID() == term.ID(), "it is %q, and %q leads, valid %v", a.ID(), term.ID(), term.Valid())
		c.resign(term)
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
