package integration_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// A member restarts in the midst of a change, and then another one after it was taken back. It gets
// the members, and not the next ones: a change that was taken back must not spread.
func TestMembersRestartInTheMidstOfAChange(t *testing.T) {
	t.Parallel()
	o := newOperator(t, forgetLease)
	for _, end := range []string{"commit", "abort"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			r := rosterOf(t, abcd...)
			for _, name := range abcd {
				r.give(t, name, forgetLease, abc, abcd)
			}
			var clients []*quorum.Locker
			for range 16 {
				l, err := listOpen(t, redlock.Open, forgetLease, r.of(abc...))
				must(t, err)
				unlock(t, lock(t, l, "job"))
				clients = append(clients, l)
			}
			l := clients[0]
			restart(t, r.masters["b"])
			eventually(t, patience, func() bool {
				unlock(t, lock(t, l, "job")) // by a and c
				m, found := r.marker(t, "b")
				return found && !m.Claimed && m.Members.Equal(scripts.NewList(abc...)) && m.Next.Len() == 0
			}, "b is marked with the members")
			r.forgetLockers(t)
			o.does(t, "members "+end, r.of(abcd...)...)
			if end == "commit" {
				isAccepted(t, redlock.Open, forgetLease, r.of(abcd...))
				isRefused(t, redlock.Open, forgetLease, r.of(abc...))
				return
			}
			// Clients that have seen the change, and not its end, find c blank.
			for _, client := range clients {
				do(t, r.masters["c"], "FLUSHALL")
				eventually(t, patience, func() bool {
					_, _ = client.TryLock(t.Context(), "other")
					m, found := r.marker(t, "c")
					return found && !m.Claimed
				}, "c is marked")
				if m, _ := r.marker(t, "c"); m.Next.Len() > 0 {
					t.Fatalf("c is told of a change that was taken back:%s", r.markers(t))
				}
			}
		})
	}
}

// Masters of one list may be in different generations: one was away while the operator admitted the
// others anew. Their list can be changed all the same.
func TestMembersOfTwoGenerationsChange(t *testing.T) {
	t.Parallel()
	o := newOperator(t, interruptedLease)
	r := rosterOf(t, abcd...)
	r.giveAll(t, interruptedLease, "a", "b")
	o.does(t, "members add", r.of("c", "a", "b")...)
	o.does(t, "members commit", r.of(abc...)...)
	must(t, r.masters["b"].Kill())
	must(t, r.masters["c"].Kill())
	must(t, r.masters["b"].Start())
	must(t, r.masters["c"].Start())
	must(t, r.masters["a"].Freeze())
	if code, out := o.says(t, "admit -yes -members", r.of(abc...)...); code != 1 { // a is away
		t.Errorf("exit code %d: %s", code, out)
	}
	must(t, r.masters["a"].Thaw())
	isAccepted(t, redlock.Open, interruptedLease, r.of(abc...))
	pass(t, interruptedLease) // since the list was given
	code, out := o.says(t, "members add", r.of("d", "a", "b", "c")...)
	if code != 0 {
		t.Logf("members add: exit code %d: %s", code, out)
		o.does(t, "members commit -yes", r.of(abc...)...) // as it says
		pass(t, interruptedLease)
		o.does(t, "members add", r.of("d", "a", "b", "c")...)
	}
	o.does(t, "members commit -yes", r.of(abcd...)...)
	isAccepted(t, redlock.Open, interruptedLease, r.of(abcd...))
}

// A change was committed on one master, and taken back on the others while it was away. Each command
// names the step that works, and the masters' refusal says first that the list was changed.
func TestMembersCommittedOnOneAndTakenBack(t *testing.T) {
	t.Parallel()
	o := newOperator(t, interruptedLease)
	r := rosterOf(t, abcd...)
	for _, name := range []string{"b", "c", "d"} {
		r.give(t, name, interruptedLease, abc, nil)
	}
	r.give(t, "a", interruptedLease, abcd, nil)
	const step = "members commit with the URLs of {a, b, c} gives all of them that list"
	for _, c := range []struct {
		verb string
		args []string
	}{
		{"members abort", r.of(abcd...)},
		{"members add", r.of("d", "a", "b", "c")},
		{"members remove", append([]string{"b"}, r.of(abc...)...)},
	} {
		code, out := o.says(t, c.verb, c.args...)
		if code != 1 {
			t.Errorf("%s: exit code %d", c.verb, code)
		}
		holds(t, out, step)
	}
	o.does(t, "members commit", r.of(abc...)...)
	isAccepted(t, redlock.Open, interruptedLease, r.of(abc...))
	err := tryOnce(t, redlock.Open, interruptedLease, r.of("a", "b", "d"), "job", nil)
	wantErr(t, err, quorum.ErrMembership, quorum.ErrPermanent)
	t.Logf("%v", err)
	pass(t, interruptedLease)
	o.does(t, "members add", append(r.of("d"), r.of(abc...)...)...)
}
