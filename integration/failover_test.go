package integration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	admin "github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
)

// atOnce has a master send its data to a replica without delay.
var atOnce = []string{"--repl-diskless-sync-delay", "0"}

// follows makes a master another one's replica.
func follows(t *testing.T, m, of *redistest.Master) {
	t.Helper()
	host, port, _ := strings.Cut(of.Addr(), ":")
	do(t, m, "REPLICAOF", host, port)
	eventually(t, "the replica has its master's data", func() bool {
		return testkit.Info(t, m, "replication", "master_link_status") == "up"
	})
}

// Masters' addresses fail over, and the old processes live on as replicas, with their connections. While an address
// still leads to its replica, that is refused, which Ready and State show. Once it leads to the promoted server, locks
// are granted there, by a client without calls in between as well, and those that wait hear of a release.
func TestAddressesThatFailOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ masters, demoted int }{{1, 1}, {3, 2}, {3, 3}} {
		t.Run(fmt.Sprintf("%d of %d", c.demoted, c.masters), func(t *testing.T) {
			t.Parallel()
			olds, replicas := fleet(t, c.masters, atOnce...), fleet(t, c.demoted, atOnce...)
			gates, urls := forwarded(t, olds)
			deployed := quorum.WithoutFounding()
			unlock(t, lock(t, careful(t, urls, redlock.Open, forgetLease), "founds it"))
			locker := careful(t, urls, redlock.Open, forgetLease, deployed)
			other := careful(t, urls, redlock.Open, forgetLease, deployed)
			for _, l := range []*quorum.Locker{locker, other} {
				unlock(t, lock(t, l, "before"))
			}
			for i, replica := range replicas.Masters {
				follows(t, replica, olds.Masters[i])
			}
			for i, replica := range replicas.Masters {
				do(t, replica, "REPLICAOF", "NO", "ONE")
				follows(t, olds.Masters[i], replica) // all connections to it stay open
			}

			want(t, testkit.ErrorOf(locker.TryLock(t.Context(), "refused")), node.ErrReplica)
			want(t, locker.Ready(t.Context()), node.ErrReplica)
			refused := 0
			for _, n := range locker.Stats().Nodes {
				if n.State == inside.Refused {
					refused++
				}
			}
			testkit.Equal(t, refused, c.demoted, "nodes refused")

			for i, m := range replicas.Masters {
				gates[i].Lead(m.Addr())
			}
			eventually(t, "ready", func() bool { return locker.Ready(t.Context()) == nil })
			held := lock(t, locker, "after")
			grantedByAll(t, replicas.Masters, "after")
			waits := make(chan error, 1)
			go func() { waits <- other.Do(short(t), func(context.Context, *quorum.Lock) error { return nil }, "after") }()
			eventually(t, "the other waits", func() bool { return other.Stats().Waiting == 1 })
			unlock(t, held)
			must(t, <-waits)
		})
	}
}

// A master whose replica acknowledges is one master through a failover. While the replica stands still nothing is granted,
// and an attempt leaves nothing. Once the replica is promoted, the old master grants nothing, to whoever is still beside it;
// the new one does when the old one follows it, after a quarantine. A lock held since before goes on.
func TestAReplicaThatAcknowledges(t *testing.T) {
	t.Parallel()
	const maxLease = 15 * time.Second
	servers := fleet(t, 2, atOnce...)
	old, replica := servers.Masters[0], servers.Masters[1]
	follows(t, replica, old)
	moving := gate(t, old)
	open := func(addr string) *quorum.Locker {
		return careful(t, addresses{"redis://" + addr + "?name=m&failover=1"}, redlock.Open, maxLease, nodesInTime)
	}
	beside, moved := open(old.Addr()), open(moving.Addr())
	must(t, admin.Admit(t.Context(), openNode(t, old.URL()+"?name=m&failover=1", node.WithMaxLease(maxLease))))
	unlock(t, lock(t, beside, "before"))
	held := lock(t, moved, "held")

	must(t, replica.Freeze())
	_, err := beside.TryLock(t.Context(), "frozen")
	want(t, err, quorum.ErrUnavailable, "not replicated", "0 of 1 replica acknowledged in time")
	must(t, replica.Thaw())
	eventually(t, "ready", func() bool { return beside.Ready(t.Context()) == nil })
	eventually(t, "nothing is left", func() bool { return keys(t, servers.Masters[:1], "frozen")[0] == nil })

	do(t, replica, "REPLICAOF", "NO", "ONE")
	eventually(t, "the replica has left", func() bool { return testkit.Info(t, old, "replication", "connected_slaves") == "0" })
	_, err = beside.TryLock(t.Context(), "after")
	want(t, err, quorum.ErrUnavailable, "not replicated", "the server has 0 replicas, and the deployment wants 1")
	moving.Lead(replica.Addr())
	follows(t, old, replica)
	granted := lock(t, moved, "after")
	want(t, testkit.ErrorOf(beside.TryLock(t.Context(), "after")), node.ErrReplica)
	testkit.Check(t, held.Valid(), "the lock held since before is lost: %v", context.Cause(held.Context()))
	unlock(t, granted)
	unlock(t, held)
	noLocks(t, []*redistest.Master{replica})
}
