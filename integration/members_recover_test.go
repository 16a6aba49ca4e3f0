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
