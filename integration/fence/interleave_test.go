//go:build unix

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

const (
	// holders work alongside each other, as if each took its lock for held: that is more than a paused
	// process can do.
	holders = 3
	// quick is when a statement first counts as one that waits for another transaction. A statement that
	// is merely slow then runs alongside the next one. Where most are slow, all holders go in step, which
	// makes some orders rare: then more is waited.
	quick = 3 * time.Millisecond
)

// event is what a holder does next: a step, or its end.
type event struct {
	holder int
	step   string
	done   []write
	ended  bool
	err    error
}

// receive returns false when no event comes until a statement counts as blocked.
func receive(events <-chan event, blocked time.Duration) (e event, ok bool) {
	select {
	case e = <-events:
		return e, true
	case <-time.After(blocked):
		return e, false
	}
}

// crew is the sessions of all holders. Plays share them: a connection to a database costs more than a play.
type crew struct {
	of       resource
	sessions [holders]session
	step     [holders]func(next string) // set by a play
	blocked  time.Duration              // when a statement counts as one that waits for another transaction
}

func newCrew(t *testing.T, r resource) *crew {
	t.Helper()
	c := &crew{of: r, blocked: quick}
	for i := range holders {
		c.sessions[i] = r.session(t, func(next string) { c.step[i](next) })
		t.Cleanup(c.sessions[i].close)
	}
	return c
}

// play runs holders over one account, one statement at a time, in an order drawn from the seed. It
// returns the committed writes, the number of holders that were refused, and what the judge says, with that order.
func (c *crew) play(t *testing.T, seed int, by order) (log []write, refused int, err error) {
	t.Helper()
	c.of.account(t, seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	var acknowledged []write
	var trace []string
	events := make(chan event)
	var turns [holders]chan struct{}
	for i := range holders {
		turns[i] = make(chan struct{})
		c.step[i] = func(next string) {
			events <- event{holder: i, step: next}
			<-turns[i]
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			// Each amount is another power of two: no two histories lead to one balance.
			done, err := c.sessions[i].work(ctx, seed, uint64(i+1), by, 1<<(2*i), 2<<(2*i))
			events <- event{holder: i, done: done, ended: true, err: err}
		}()
	}
	running := holders // on their way to the next event
	next := map[int]string{}
	for ended := 0; ended < holders; {
		// With a step to choose, a statement that waits for another transaction is left to wait. Before the
		// first statement nobody waits: all holders come to the start, however slow the machine is.
		for running > 0 {
			e, ok := receive(events, c.blocked)
			if !ok && (len(next) == 0 || len(trace) == 0) {
				continue
			}
			if !ok {
				break
			}
			running--
			switch {
			case !e.ended:
				next[e.holder] = e.step
				continue
			case errors.Is(e.err, fence.ErrFenced):
				refused++
			case e.err != nil:
				t.Fatalf("seed %d: holder %d: %v\n%s", seed, e.holder+1, e.err, strings.Join(trace, "\n"))
			}
			ended++
			acknowledged = append(acknowledged, e.done...)
			trace = append(trace, fmt.Sprintf("holder %d: ended: %v", e.holder+1, e.err))
		}
		if len(next) == 0 {
			continue
		}
		ready := slices.Sorted(maps.Keys(next))
		chosen := ready[rng.IntN(len(ready))]
		trace = append(trace, fmt.Sprintf("holder %d: %s", chosen+1, next[chosen]))
		delete(next, chosen)
		running++
		turns[chosen] <- struct{}{}
	}
	balance, log := c.of.state(t, seed)
	if err := judge(acknowledged, balance, log); err != nil {
		return log, refused, fmt.Errorf("seed %d: %w\n%s", seed, err, strings.Join(trace, "\n"))
	}
	return log, refused, nil
}

// resources are all that the guards protect, each made afresh for a test.
func resources() map[string]func(*testing.T) resource {
	all := map[string]func(*testing.T) resource{"Redis": func(t *testing.T) resource { return onRedis(t) }}
	for name, fresh := range guards {
		all[name] = func(t *testing.T) resource { return fresh(t) }
	}
	return all
}

// No order of the statements of three holders, each of which takes its lock for held, loses an
// update or takes a token back.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	// Some orders of statements are rare: more seeds are played until they have come.
	const seeds, mostSeeds = 40, 400
	for name, fresh := range resources() {
		orders := []order{stampFirst, oneStep}
		if name == "Redis" {
			orders = orders[:1]
		}
		for _, by := range orders {
			t.Run(name+"/"+string(by), func(t *testing.T) {
				t.Parallel()
				c := newCrew(t, fresh(t))
				writes, refusals, seed := 0, 0, 0
				besideEachOther := func() bool { return refusals > 0 && writes > 2*seed }
				for ; seed < seeds || !besideEachOther() && seed < mostSeeds; seed++ {
					log, refused, err := c.play(t, seed, by)
					must(t, err)
					if seed%seeds == seeds-1 && !besideEachOther() {
						c.blocked *= 2
					}
					testkit.Require(t, len(log) != 0 && log[len(log)-1].Token == holders,
						"seed %d: the last write's token is not the greatest: %v", seed, log)
					writes += len(log)
					refusals += refused
				}
				t.Logf("%d orders of statements: %d writes, %d holders refused", seed, writes, refusals)
				testkit.Check(t, besideEachOther(), "no two holders overlapped")
			})
		}
	}
}

// Each wrong order loses an update soon: the judge sees it, and the right order is needed.
func TestWrongOrdersLoseUpdates(t *testing.T) {
	t.Parallel()
	const seeds = 200
	for name, more := range map[string][]order{
		"Redis": {unwatched}, "PostgreSQL, lib/pq": {rolledBack, readFirstOne}, "MariaDB, repeatable read": {rolledBack, readFirstOne},
		"SQLite, write-ahead log": {rolledBack},
	} {
		for _, by := range append(more, readFirst, stampOnlyRead, unguarded) {
			t.Run(name+"/"+string(by), func(t *testing.T) {
				t.Parallel()
				c := newCrew(t, resources()[name](t))
				for seed := range seeds {
					if _, _, err := c.play(t, seed, by); err != nil {
						t.Log(err)
						return
					}
				}
				t.Errorf("%d orders of statements, and no harm done", seeds)
			})
		}
	}
}
