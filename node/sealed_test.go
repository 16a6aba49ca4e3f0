package node_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// replicated starts a master with a replica. Bytes go to it without delay.
func replicated(t *testing.T) (m, replica *redistest.Master) {
	t.Helper()
	atOnce := []string{"--repl-diskless-sync-delay", "0"}
	m, replica = startReal(t, atOnce...), startReal(t, atOnce...)
	attach(t, replica, m)
	return m, replica
}

func attach(t *testing.T, replica, m *redistest.Master) {
	t.Helper()
	host, port := hostPort(t, m)
	testkit.Do(t, replica, "REPLICAOF", host, port)
	testkit.Eventually(t, "the replica follows", func() bool {
		return testkit.Info(t, replica, "replication", "master_link_status") == "up" &&
			strings.Contains(testkit.Info(t, m, "replication", "slave0"), "state=online")
	})
}

// The marker names the process, its history and the number of replicas, and the database last, as without replicas.
func TestTheMarkerNamesTheReign(t *testing.T) {
	t.Parallel()
	m, replica := replicated(t)
	run := testkit.Info(t, m, "server", "run_id") + "." + testkit.Info(t, m, "replication", "master_replid") + ".1"
	for suffix, n := range map[string]*node.Node{
		"":   open(t, m.URL(), node.WithFailover(1)),
		"/3": open(t, m.URL()+"/3?failover=1"),
	} {
		r := do(t, n, acquire("k", "o:1"))
		if suffix == "" { // the member has another name in database 3
			mustGrant(t, r)
			testkit.Check(t, exists(t, replica, "k"), "the replica lacks the lock")
		}
		look := await(t, start(n, "", scripts.Look(), nil)).Reply.Look
		testkit.Equal(t, look.Process.Run, run+suffix, "the run")
	}
	marker := testkit.Got(scripts.ParseMarker(fmt.Sprintf("%s", testkit.Do(t, m, "GET", scripts.MarkerKey))))(t)
	testkit.Equal(t, marker.Run, run, "the run in the marker")
}

// Another number of replicas is refused before anything is written, also over a live connection, until an operator admits
// the master with it.
func TestAnotherNumberOfReplicasIsRefused(t *testing.T) {
	t.Parallel()
	m, _ := replicated(t)
	without, with := open(t, m.URL()), open(t, m.URL(), node.WithFailover(1))
	mustGrant(t, do(t, without, acquire("k", "o:1")))
	before := fmt.Sprintf("%s", testkit.Do(t, m, "GET", scripts.MarkerKey))
	refuses(t, with, node.ErrFailover)
	isPermanent(t, do(t, with, acquire("l", "o:2")).Err)
	testkit.Equal(t, check(t, with).Refused.Error(), "the number of replicas differs: the deployment's is 0, this client's 1 "+
		"(node.WithFailover, ?failover=... in the URL)", "why it is refused")
	testkit.Equal(t, fmt.Sprintf("%s", testkit.Do(t, m, "GET", scripts.MarkerKey)), before, "the marker")

	testkit.Must(t, operator.Admit(t.Context(), with))
	admitted, err := scripts.ParseMarker(fmt.Sprintf("%s", testkit.Do(t, m, "GET", scripts.MarkerKey)))
	testkit.Check(t, err == nil && admitted.Members.Equal(members) && admitted.Replicas() == 1, "admitted: %v, %v", admitted, err)
	mustGrant(t, do(t, open(t, m.URL(), node.WithFailover(1)), acquire("l", "o:2")))
	r := do(t, without, acquire("m", "o:1"))
	mustFail(t, without, r.Err, node.ErrFailover)
	isPermanent(t, r.Err)
	refuses(t, open(t, m.URL()), node.ErrFailover)
}

// at is where an error says that a master is.
func at(m *redistest.Master) string {
	if !redistest.Has(redistest.ClientInfo) {
		return ""
	}
	return " at " + m.Addr()
}

// A master that lacks its replica is down, and says why. It is back with its replica.
func TestAMasterWithoutItsReplicaIsDown(t *testing.T) {
	t.Parallel()
	m, replica := replicated(t)
	testkit.Do(t, replica, "REPLICAOF", "NO", "ONE")
	testkit.Eventually(t, "the replica has left", func() bool { return testkit.Info(t, m, "replication", "connected_slaves") == "0" })
	n := open(t, m.URL(), node.WithFailover(1))
	why := "not replicated" + at(m) + ": the server has 0 replicas, and the deployment wants 1"
	r := do(t, n, acquire("k", "o:1"))
	testkit.Check(t, r.Err != nil && strings.HasSuffix(r.Err.Error(), "connect: down: "+why), "%v", r.Err)
	testkit.Check(t, !n.LastError().Permanent() && n.LastError().Code() == "not_replicated", "%v", n.LastError().Code())
	testkit.Equal(t, n.State(), inside.Down, "the state")
	report := check(t, n)
	testkit.Check(t, report.Refused == nil && strings.HasSuffix(report.RefusesWrites.Error(), why), "check: %v", report.RefusesWrites)
	testkit.Equal(t, report.Replicas, 0, "the number in the marker")
	testkit.Equal(t, report.Hazards[0], "it grants nothing: "+why, "the hazard")
	shown := open(t, m.URL(), node.WithFailover(1), inside.Option[node.Option](func(s *inside.Settings) { s.Unsealed = true }))
	testkit.Must(t, do(t, shown, scripts.Look()).Err)
	attach(t, replica, m)
	testkit.Eventually(t, "it is back", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
	testkit.Check(t, exists(t, replica, "k"), "the replica lacks the lock")
	report = check(t, n)
	testkit.Equal(t, report.Replicas, 1, "the number in the marker")
	testkit.Check(t, !strings.Contains(strings.Join(report.Hazards, "\n"), "replicas are attached"), "hazards %q", report.Hazards)
}

// A failover may make a replica of the master before its name leads to the new one: calls wait for that.
func TestAReplicaPassesWhereTheMasterFailsOver(t *testing.T) {
	t.Parallel()
	m, replica := replicated(t)
	for _, url := range []string{replica.URL(), m.URL()} { // from the first connection on, and over a live one
		n := open(t, url, node.WithFailover(1))
		if url == m.URL() {
			mustGrant(t, do(t, n, acquire("k", "o:1")))
			testkit.Do(t, replica, "REPLICAOF", "NO", "ONE")
			attach(t, m, replica)
		}
		testkit.Eventually(t, "the call finds a replica", func() bool {
			r := do(t, n, acquire("l", "o:1"))
			failed, ok := errors.AsType[*node.Error](r.Err)
			testkit.Check(t, !ok || !failed.Permanent(), "permanent: %v", r.Err)
			return errors.Is(r.Err, node.ErrReplica) && n.State() == inside.Down
		})
	}
}

// A replica that stands still acknowledges nothing: the call fails within the timeout, the next ones at once, and releases go
// out before all else once it is back. There is no quarantine then.
func TestAReplicaThatStandsStill(t *testing.T) {
	t.Parallel()
	m, replica := replicated(t)
	const timeout = 3 * time.Second
	n := openQuarantined(t, m.URL(), node.DefaultMaxLease, node.WithFailover(1), node.WithTimeout(timeout))
	testkit.Must(t, operator.Admit(t.Context(), n))
	mustGrant(t, do(t, n, acquire("held", "o:1")))
	testkit.Must(t, replica.Freeze())
	w := stopwatch(t)
	r := do(t, n, acquire("k", "o:1"))
	took(t, "a call", w, timeout/2, timeout)
	testkit.Check(t, r.Err != nil && strings.HasSuffix(r.Err.Error(), "acquire: not replicated"+at(m)+": 0 of 1 replica acknowledged in time") &&
		r.Sent && !r.NothingDone, "%+v, %v", r, r.Err)
	testkit.Check(t, exists(t, m, "k"), "the server has not carried it out")
	testkit.Check(t, do(t, n, release("k", "o:1")).Err != nil, "released by a node that is down")
	testkit.Must(t, replica.Thaw())
	testkit.Eventually(t, "it is back", func() bool { return do(t, n, scripts.Look()).Err == nil })
	testkit.Check(t, !exists(t, m, "k") && exists(t, m, "held"), "the keys are %v", keys(t, m))
	mustGrant(t, do(t, n, acquire("k", "o:2")))
}

// A process that was a replica meanwhile may lack what it granted before: its connection ends, and its next reign is another
// process to its clients.
func TestAnotherReignIsAnotherProcess(t *testing.T) {
	t.Parallel()
	m, replica := replicated(t)
	const maxLease = 10 * time.Second
	n := openQuarantined(t, m.URL(), maxLease, node.WithFailover(1))
	testkit.Must(t, operator.Admit(t.Context(), n))
	mustGrant(t, do(t, n, acquireFor(maxLease, "k", "o:1")))
	testkit.Do(t, replica, "REPLICAOF", "NO", "ONE") // promoted,
	attach(t, m, replica)                            // followed by its old master,
	testkit.Do(t, m, "REPLICAOF", "NO", "ONE")
	attach(t, replica, m) // which takes its place again
	testkit.Eventually(t, "the connection is left", func() bool {
		r := do(t, n, acquireFor(maxLease, "l", "o:2"))
		testkit.Check(t, !isGranted(r), "granted in another reign, without a quarantine")
		return r.Err == nil && r.Reply.Acquire.Outcome == scripts.Quarantined
	})
}

// A client that does not say how many replicas a master has logs once that it has some.
func TestReplicasThatAcknowledgeNothingAreLogged(t *testing.T) {
	t.Parallel()
	m, _ := replicated(t)
	const line = "quorumlock: node has replicas that acknowledge nothing"
	log := &lines{}
	n := open(t, m.URL(), log.option(), node.WithConns(2))
	for _, key := range []string{"a", "b"} { // each over a connection of its own
		mustGrant(t, doAt(t, n, key, acquire(key, "o:1")))
	}
	testkit.Eventually(t, "it is logged", func() bool { return log.logged(line) > 0 })
	testkit.Equal(t, log.logged(line), 1, "lines")
	warning := check(t, n).Hazards[0]
	testkit.Check(t, strings.HasPrefix(warning, "replicas are attached (1): if one is promoted, two may hold a lock (") &&
		strings.Contains(warning, "?failover=N in the URL"), "%s", warning)
}
