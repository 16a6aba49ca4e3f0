package node_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// failover is a master behind an address that can lead to another one.
type failover struct {
	*forward.Forward
	old, new *redistest.Master
}

func startFailover(t *testing.T) *failover {
	t.Helper()
	atOnce := []string{"--repl-diskless-sync-delay", "0"}
	f := &failover{old: startReal(t, atOnce...), new: startReal(t, atOnce...)}
	var err error
	f.Forward, err = forward.New(f.old.Addr())
	testkit.Must(t, err)
	t.Cleanup(f.Close)
	return f
}

func (f *failover) url() string { return "redis://" + f.Addr() }

// demote makes the old master a replica of the new one. Its connections stay open.
func (f *failover) demote(t *testing.T) {
	t.Helper()
	host, port := hostPort(t, f.new)
	testkit.Do(t, f.old, "REPLICAOF", host, port)
}

// synced waits until the old master has the new one's data.
func (f *failover) synced(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "the old master has the data of the new one", func() bool {
		return testkit.Info(t, f.old, "replication", "master_link_status") == "up"
	})
}

func runID(t *testing.T, m *redistest.Master) string {
	t.Helper()
	return testkit.Info(t, m, "server", "run_id")
}

// An address that leads to a new master, while the old one lives on as its replica and keeps the connections: the call
// that finds it out is carried out by the new one, and messages come from there. An idle connection to the old one,
// here of Check, keeps no call from it.
func TestAnAddressThatFailsOver(t *testing.T) {
	t.Parallel()
	for what, hasForgotten := range map[string]bool{"before it has the new one's data": false, "after": true} {
		t.Run(what, func(t *testing.T) {
			f, log := startFailover(t), &lines{}
			n := open(t, f.url(), log.option(), node.WithConns(2))
			for _, key := range []string{"a", "b"} { // each over a connection of its own
				mustGrant(t, doAt(t, n, key, acquire("old:"+key, "o:1")))
			}
			testkit.Must(t, operator.AdmitMembers(t.Context(), open(t, f.new.URL()), []string{nodeName}))
			channel := scripts.ChannelPrefix + "{k}"
			defer inside.Of(n).Subscriptions.Subscribe(channel, subscriber{})()
			confirmed := func(m *redistest.Master) func() bool {
				return func() bool {
					subscribers := testkit.Got(redis.IntMap(m.Do("PUBSUB", "NUMSUB", channel)))(t)
					return subscribers[channel] == 1
				}
			}
			testkit.Eventually(t, "subscribed at the old one", confirmed(f.old))
			check(t, n)

			f.Lead(f.new.Addr())
			f.demote(t)
			if hasForgotten {
				f.synced(t)
			}
			r := doAt(t, n, "a", acquire("k", "o:1"))
			mustGrant(t, r)
			testkit.Equal(t, r.RunID, runID(t, f.new), "granted by the process")
			testkit.Check(t, !r.Resent, "a call that was refused counts as resent")
			testkit.Eventually(t, "subscribed at the new one", confirmed(f.new))
			testkit.Eventually(t, "no connection to the old one", func() bool { return clients(t, f.old) == 0 })
			testkit.Equal(t, doAt(t, n, "b", acquire("l", "o:1")).RunID, runID(t, f.new), "the other connection's process")
			testkit.Equal(t, n.State(), inside.Up, "the state")
			testkit.Eventually(t, "logged", func() bool { return log.logged("may no longer be a master") > 0 })
			testkit.Equal(t, log.logged("may no longer be a master"), 1, "lines of "+log.String())
			testkit.Equal(t, log.logged("user_script"), 0, "lines with a script's hash: "+log.String())
		})
	}
}

// While the address leads to the replica, it is refused: by calls, in the state, to the hook, and in the log, once. It
// is found when the address leads to the new master.
func TestAnAddressThatFailsOverLater(t *testing.T) {
	t.Parallel()
	f, log := startFailover(t), &lines{}
	var s seen
	n := open(t, f.url(), log.option(), node.WithHooks(s.hooks()))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	f.demote(t)
	for range 20 {
		refuses(t, n, node.ErrReplica)
		testkit.Equal(t, n.State(), inside.Refused, "the state")
	}
	testkit.Eventually(t, "the hook is told", func() bool { return s.lastState().State == inside.Refused })
	testkit.Is(t, s.lastState().Err, node.ErrReplica, "the hook's error")
	testkit.Eventually(t, "logged", func() bool { return log.logged("node refused", node.ErrReplica.Error()) > 0 })
	testkit.Equal(t, log.logged("level=WARN"), 2, "warnings of "+log.String())

	f.Lead(f.new.Addr())
	testkit.Eventually(t, "granted by the new one", func() bool {
		r := do(t, n, acquire("k", "o:2"))
		return isGranted(r) && r.RunID == runID(t, f.new)
	})
	testkit.Equal(t, n.State(), inside.Up, "the state")
	testkit.Eventually(t, "logged", func() bool { return log.logged("answers again") == 1 })
}

// A replica that has its master's data never says READONLY to a client that may not mark it: it has the marker of
// another process, and grants nothing. The client looks where the address leads.
func TestAReplicaThatForgotIsLeft(t *testing.T) {
	t.Parallel()
	f := startFailover(t)
	n := open(t, f.url())
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	testkit.Must(t, operator.AdmitMembers(t.Context(), open(t, f.new.URL()), []string{nodeName}))
	f.Lead(f.new.Addr())
	f.demote(t)
	f.synced(t)
	testkit.Equal(t, outcome(await(t, start(n, "key", acquire("k", "o:2"), nil))).Outcome, scripts.NotAccepted, "the replica's answer")
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:2"), nil)))
}

// The lock of a caller's pool is as well off, however many of the pool's connections lead to the replica.
func TestAPoolWithConnectionsToAReplica(t *testing.T) {
	t.Parallel()
	f := startFailover(t)
	pool := poolOf(f.Addr())
	pool.MaxIdle = 5
	n := openPool(t, pool)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	var idle []redis.Conn
	for range pool.MaxIdle {
		c := pool.Get()
		testkit.Got(c.Do("PING"))(t)
		idle = append(idle, c)
	}
	for _, c := range idle {
		c.Close()
	}
	f.Lead(f.new.Addr())
	f.demote(t)
	testkit.Eventually(t, "granted by the new one", func() bool { // which is not marked if the other had its data first
		r := do(t, n, acquire("k", "o:1"))
		return isGranted(r) && r.RunID == runID(t, f.new)
	})
}

// Each Check finds the master to which the address leads then, and takes no connection that the server has ended.
func TestCheckUsesNoOldConnection(t *testing.T) {
	t.Parallel()
	for what, opened := range map[string]func(*testing.T, *failover) *node.Node{
		"by URL": func(t *testing.T, f *failover) *node.Node { return open(t, f.url()) },
		"over a pool": func(t *testing.T, f *failover) *node.Node {
			pool := poolOf(f.Addr())
			pool.MaxIdle, pool.MaxActive = 5, 5
			return openPool(t, pool)
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := startFailover(t)
			n := opened(t, f)
			testkit.Equal(t, check(t, n).RunID, runID(t, f.old), "the process")
			testkit.Do(t, f.old, "CLIENT", "KILL", "TYPE", "normal") // as Sentinel does, or a server with a timeout
			testkit.Equal(t, check(t, n).RunID, runID(t, f.old), "the process")
			f.Lead(f.new.Addr())
			f.demote(t)
			testkit.Equal(t, check(t, n).RunID, runID(t, f.new), "the next process")
		})
	}
}
