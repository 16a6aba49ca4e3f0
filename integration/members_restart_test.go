package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// forgetLease is the max lease of the deployments whose masters forget their list: a restart takes
// less than half of it.
const forgetLease = 3 * time.Second

// deployment is three masters that carry their list, and a client that they have accepted.
func deployment(t *testing.T, opts ...quorum.Option) (*roster, *quorum.Locker) {
	t.Helper()
	r := rosterOf(t, abc...)
	r.giveAll(t, forgetLease, abc...)
	l, err := listOpen(t, redlock.Open, forgetLease, r.of(abc...), opts...)
	must(t, err)
	unlock(t, lock(t, l, "job"))
	return r, l
}

// lockAfter waits for the lock, and returns how long after since it was acquired.
func lockAfter(t *testing.T, l *quorum.Locker, since time.Time) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), forgetLease+patience)
	defer cancel()
	held, err := l.Lock(ctx, "job")
	must(t, err)
	took := time.Since(since)
	unlock(t, held)
	return took
}

// hasList fails the test unless a master carries the list.
func (r *roster) hasList(t *testing.T, name string, generation uint64, list []string) {
	t.Helper()
	if m, _ := r.marker(t, name); m.Claimed || !m.Members.Equal(scripts.NewList(list...)) || m.Generation != generation {
		t.Errorf("%s does not carry %v in generation %d:%s", name, list, generation, r.markers(t))
	}
}

// A master restarts under a client: the other two give it the list, and it waits in quarantine.
func TestMembersRestartUnderAnActiveClient(t *testing.T) {
	t.Parallel()
	r, l := deployment(t)
	began := time.Now()
	restart(t, r.masters["b"])
	r.isMarked(t, l, "b")
	must(t, r.masters["c"].Kill())
	took := lockAfter(t, l, began)
	if took < forgetLease {
		t.Errorf("granted %v after the restart began: the quarantine is %v", took, forgetLease)
	}
	t.Logf("granted %v after the restart began", took)
	r.hasList(t, "b", 1, abc)
}

// isMarked has a client lock until a master carries a list.
func (r *roster) isMarked(t *testing.T, l *quorum.Locker, name string) {
	t.Helper()
	eventually(t, patience, func() bool {
		if held, err := l.TryLock(t.Context(), "marking"); err == nil {
			unlock(t, held)
		}
		m, found := r.marker(t, name)
		return found && m.Members.Len() > 0 && !m.Claimed
	}, name+" is marked")
}

// reached waits until a client that has no majority is connected to masters that have restarted.
func reached(t *testing.T, l *quorum.Locker, names ...string) {
	t.Helper()
	eventually(t, patience, func() bool {
		_, err := l.TryLock(t.Context(), "job")
		return !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(fmt.Sprint(err), "node "+name+": connect:") })
	}, fmt.Sprintf("%q are reached again", names))
}

// One master is dead, and another one restarts: no majority says whom the restarted master accepted. The
// error says what the operator can do, and that mends it.
func TestMembersRestartWhileAnotherIsDead(t *testing.T) {
	t.Parallel()
	o := newOperator(t, forgetLease)
	r, l := deployment(t)
	must(t, r.masters["c"].Kill())
	restart(t, r.masters["b"])
	reached(t, l, "b")
	for range 2 {
		_, err := l.TryLock(t.Context(), "job")
		wantErr(t, err, quorum.ErrUnavailable)
		if !strings.Contains(fmt.Sprint(err), "quorumlock admit -members") {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
	if m, found := r.marker(t, "b"); found {
		t.Errorf("b was marked: %v", m)
	}
	type result struct {
		held *quorum.Lock
		err  error
	}
	waiter := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	go func() {
		held, err := l.Lock(ctx, "job")
		waiter <- result{held, err}
	}()
	code, out := o.says(t, "admit -yes -members", r.of(abc...)...)
	if code != 1 { // c is away
		t.Errorf("exit code %d: %s", code, out)
	}
	got := <-waiter
	must(t, got.err)
	unlock(t, got.held)
	must(t, r.masters["c"].Start())
	isAccepted(t, redlock.Open, forgetLease, r.of(abc...))
}

// All masters restart: none is marked until all answer.
func TestMembersAllRestart(t *testing.T) {
	t.Parallel()
	r, l := deployment(t)
	for _, name := range abc {
		must(t, r.masters[name].Kill())
	}
	must(t, r.masters["a"].Start())
	must(t, r.masters["b"].Start())
	reached(t, l, "a", "b")
	_, err := l.TryLock(t.Context(), "job")
	wantErr(t, err, quorum.ErrUnavailable)
	for _, name := range []string{"a", "b"} {
		if m, found := r.marker(t, name); found {
			t.Errorf("%s was marked while c was away: %v", name, m)
		}
	}
	began := time.Now()
	must(t, r.masters["c"].Start())
	if took := lockAfter(t, l, began); took < forgetLease {
		t.Errorf("granted %v after the last restart: the quarantine is %v", took, forgetLease)
	}
	for _, name := range abc {
		r.hasList(t, name, 1, abc)
	}
}

// A client that wants no quarantine gives a flushed master the list at once, over the connection that it has.
func TestMembersFlushWithoutQuarantine(t *testing.T) {
	t.Parallel()
	trusting := quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithMaxLease(forgetLease), node.WithTimeout(memberTimeout))
	r, l := deployment(t, trusting)
	do(t, r.masters["b"], "FLUSHALL")
	r.isMarked(t, l, "b")
	must(t, r.masters["c"].Kill())
	held, err := l.TryLock(t.Context(), "job")
	must(t, err)
	unlock(t, held)
	r.hasList(t, "b", 1, abc)
}

// aMasterFreezes bounds what a call costs while one master does not answer.
var aMasterFreezes = quorum.WithNodeOptions(node.WithTimeout(soon))

// A master's address moves to a spare. The spare grants nothing to the list's clients at once, whatever
// it was admitted for earlier; unless an operator admitted it just now.
func TestMembersAddressMovesToASpare(t *testing.T) {
	t.Parallel()
	admits := func(t *testing.T, r *roster, name string, maxLease time.Duration) {
		t.Helper()
		n, err := node.Open(r.masters["spare"].URL()+"?name="+name, node.WithMaxLease(maxLease), node.WithTimeout(memberTimeout))
		must(t, err)
		must(t, n.Admit(t.Context()))
		must(t, n.Close())
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
			pass(t, forgetLease+100*time.Millisecond)
		}, waits},
		"admitted by another name": {func(t *testing.T, r *roster) { admits(t, r, "x", forgetLease) }, waits},
		"member of another list": {func(t *testing.T, r *roster) {
			r.giveAs(t, "spare", "b", forgetLease, []string{"b", "x", "y"})
		}, refuses},
		"another member of this list": {func(t *testing.T, r *roster) {
			r.giveAs(t, "spare", "c", forgetLease, abc)
		}, refuses},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			maxLease := forgetLease
			if c.want == atOnce {
				maxLease = longerLease
			}
			r := rosterOf(t, "a", "b", "c", "spare").withGates(t, nil)
			r.giveAll(t, maxLease, abc...)
			c.prepare(t, r)
			l, err := listOpen(t, redlock.Open, maxLease, r.of(abc...), aMasterFreezes)
			must(t, err)
			must(t, r.masters["c"].Freeze())
			held := lock(t, l, "held")
			moved := time.Now()
			r.gates["b"].turn(r.masters["spare"].Addr())

			// A second holder would get a and the spare.
			other, err := listOpen(t, redlock.Open, maxLease, r.of(abc...), aMasterFreezes)
			must(t, err)
			_, err = other.TryLock(t.Context(), "held")
			wantErr(t, err, quorum.ErrNotAcquired)
			// The spare never had it, and c is away. Where the lease outlasts the wait for c, Unlock may come before a renewal that
			// finds the lock lost.
			err = held.Unlock(t.Context())
			if early := c.want == atOnce && errors.Is(err, quorum.ErrUnavailable); err != nil && !early {
				wantErr(t, err, quorum.ErrLost)
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
				wantErr(t, err, quorum.ErrMembership)
			case waits:
				wantErr(t, err, quorum.ErrQuarantined)
				if took := lockAfter(t, l, moved); took < forgetLease {
					t.Errorf("granted %v after the address moved: the quarantine is %v", took, forgetLease)
				}
			}
		})
	}
}
