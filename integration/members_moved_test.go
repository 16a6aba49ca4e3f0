package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// A member's name moves to a process that was never a member. One client still reaches the old process: by an address
// that it has looked up before, or over a connection that lives on. Its holder renews there, while the new process waits in
// quarantine and then grants the lock to another: two hold. If the old process is stopped first, as docs/operations.md says,
// its holder is lost before that.
func TestMembersNameThatMovesWhileTheOldProcessLives(t *testing.T) {
	t.Parallel()
	for how, c := range map[string]struct {
		stopped bool
		two     bool
	}{"the old process lives on": {false, true}, "the old process is stopped first": {true, false}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := rosterOf(t, "a", "b", "c", "new")
			r.giveAll(t, forgetLease, abc...)
			cutOff := "redis://127.0.0.1:1?name=c" // the network between this client and c is down
			stale, err := listOpen(t, redlock.Open, forgetLease, addresses{r.url("a"), r.url("b"), cutOff}, quorum.WithLease(forgetLease))
			must(t, err)
			first := lock(t, stale, "held")

			if c.stopped {
				must(t, r.masters["b"].Kill())
			}
			moved := addresses{r.url("a"), r.masters["new"].URL() + "?name=b", r.url("c")}
			other, err := listOpen(t, redlock.Open, forgetLease, moved, quorum.WithLease(forgetLease))
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), forgetLease+patience)
			defer cancel()
			began := time.Now()
			second, err := other.Lock(ctx, "held")
			must(t, err)
			if took := time.Since(began); took < forgetLease/2 {
				t.Errorf("the new process granted after %v", took)
			}
			if two := first.Valid() && second.Valid(); two != c.two {
				t.Errorf("after %v two hold: %v, want %v", time.Since(began), two, c.two)
			} else if two && second.Token() <= first.Token() {
				t.Errorf("token %d after %d", second.Token(), first.Token())
			}
			unlock(t, second)
			_ = first.Unlock(t.Context())
		})
	}
}
