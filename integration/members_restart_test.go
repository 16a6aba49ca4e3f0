package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// forgetLease is the max lease of the deployments whose masters forget their list: a restart takes
// less than half of it.
const forgetLease = 3 * time.Second

// isMarked has a client lock until a master carries a list.
func (r *roster) isMarked(t *testing.T, l *quorum.Locker, name string) {
	t.Helper()
	eventually(t, name+" is marked", func() bool {
		if held, err := l.TryLock(t.Context(), "marking"); err == nil {
			unlock(t, held)
		}
		text, _ := redis.String(r.masters[name].Do("GET", scripts.MarkerKey))
		m, err := scripts.ParseMarker(text)
		return err == nil && m.Members.Len() > 0 && !m.Claimed
	})
}

// aMasterFreezes bounds what a call costs while one master does not answer.
var aMasterFreezes = quorum.WithNodeOptions(node.WithTimeout(soon))

// A master's address moves to a spare. The spare grants nothing to the list's clients at once, whatever
// it was admitted for earlier; unless an operator admitted it just now.
func TestMembersAddressMovesToASpare(t *testing.T) {
	t.Parallel()
	admits := func(t *testing.T, r *roster, name string, maxLease time.Duration) {
		t.Helper()
		admit(t, maxLease, memberTimeout, r.masters["spare"].URL()+"?name="+name)
	}
	const longerLease = 10 * forgetLease // an admission is one of just now for that long
	const atOnce, waits, refuses = "grants at once", "waits", "refuses"
	for how, c := range map[string]struct {
		prepare func(*testing.T, *roster)
		want    string
	}{
		"blank":             {func(*testing.T, *roster) {}, waits},
		"admitted just now": {func(t *testing.T, r *roster) { admits(t, r, "b", longerLease) }, atOnce},
		"admitted more than a max lease ago": {func(t *testing.T, r *roster) {
			admits(t, r, "b", forgetLease)
			time.Sleep(forgetLease + 100*time.Millisecond)
		}, waits},
		"admitted by another name": {func(t *testing.T, r *roster) { admits(t, r, "x", forgetLease) }, waits},
		"member of another list": {func(t *testing.T, r *roster) {
			r.give(t, "spare", "b", forgetLease, []string{"b", "x", "y"})
		}, refuses},
		"another member of this list": {func(t *testing.T, r *roster) {
			r.give(t, "spare", "c", forgetLease, abc)
		}, refuses},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			maxLease := forgetLease
			if c.want == atOnce {
				maxLease = longerLease
			}
			r := rosterOf(t, "a", "b", "c", "spare").withGates(t)
			r.giveAll(t, maxLease, abc...)
			c.prepare(t, r)
			l := careful(t, r.of(abc...), redlock.Open, maxLease, aMasterFreezes)
			must(t, r.masters["c"].Freeze())
			held := lock(t, l, "held")
			moved := time.Now()
			r.gates["b"].Turn(r.masters["spare"].Addr())

			// A second holder would get a and the spare.
			_, err := careful(t, r.of(abc...), redlock.Open, maxLease, aMasterFreezes).TryLock(t.Context(), "held")
			want(t, err, quorum.ErrNotAcquired)
			// The spare never had it, and c is away. If the lease outlasts the wait for c, Unlock may come before a renewal that
			// finds the lock lost.
			err = held.Unlock(t.Context())
			if early := c.want == atOnce && errors.Is(err, quorum.ErrUnavailable); err != nil && !early {
				want(t, err, quorum.ErrLost)
			}

			if c.want != refuses { // the spare gets the list once a and c say whom it is to accept
				must(t, r.masters["c"].Thaw())
				r.masters["b"] = r.masters["spare"]
				r.isMarked(t, l, "b")
				must(t, r.masters["c"].Freeze())
			}
			free, err := l.TryLock(t.Context(), "job")
			switch c.want {
			case atOnce:
				must(t, err)
				unlock(t, free)
			case refuses:
				want(t, err, quorum.ErrMembership)
			case waits:
				want(t, err, quorum.ErrQuarantined)
				held := lock(t, l, "job")
				took := time.Since(moved)
				unlock(t, held)
				if took < forgetLease {
					t.Errorf("granted %v after the address moved: the quarantine is %v", took, forgetLease)
				}
			}
		})
	}
}

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
			urls := addresses{r.url("a"), r.url("b"), cutOff}
			first := lock(t, careful(t, urls, redlock.Open, forgetLease, quorum.WithLease(forgetLease)), "held")

			if c.stopped {
				must(t, r.masters["b"].Kill())
			}
			moved := addresses{r.url("a"), r.masters["new"].URL() + "?name=b", r.url("c")}
			other := careful(t, moved, redlock.Open, forgetLease, quorum.WithLease(forgetLease))
			began := time.Now()
			second := lock(t, other, "held")
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
