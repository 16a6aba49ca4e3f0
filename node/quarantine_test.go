package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// short is the max lease in tests that wait for its end, which are parallel. A busy machine may stand
// still for most of it.
const short = 1500 * time.Millisecond

// quarantined wants a node to have granted nothing, and to report the quarantine left.
func quarantined(t *testing.T, r pipeline.Result, maxLease time.Duration) {
	t.Helper()
	reply := outcome(r)
	testkit.Require(t, reply.Outcome == scripts.Quarantined && reply.Wait > 0 && reply.Wait <= maxLease,
		"answered %+v, %v: want quarantined for up to %v", reply, r.Err, maxLease)
}

func TestAdmitEndsQuarantine(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := openQuarantined(t, m.URL(), time.Hour)
		quarantined(t, do(t, n, acquireFor(time.Hour, "k", "o:1")), time.Hour)
		testkit.Must(t, operator.Admit(t.Context(), n))
		mustGrant(t, do(t, n, acquireFor(time.Hour, "k", "o:1")))

		fresh := startEmbedded(t)
		unused := openQuarantined(t, fresh.URL(), time.Hour)
		testkit.Must(t, operator.Admit(t.Context(), unused))
		mustGrant(t, do(t, unused, acquireFor(time.Hour, "k", "o:1")))
	})
}

// To connect, to identify and to look writes nothing: a client that is not accepted changes no master.
func TestIdentify(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := openQuarantined(t, m.URL(), time.Hour)
		id, err := identify(t.Context(), n)
		want := testkit.Info(t, m, "server", "run_id")
		testkit.Check(t, err == nil && id == want, "identified as %q, %v; want %q", id, err, want)
		testkit.Equal(t, do(t, n, operators.Inspect(scripts.NewName("k"))).RunID, id, "a result comes from")
		r := await(t, start(n, "key", acquireFor(time.Hour, "k", "o:1"), nil))
		testkit.Check(t, outcome(r).Outcome == scripts.NotAccepted, "a blank master answers %+v, %v", r.Reply, r.Err)
		testkit.Equal(t, fmt.Sprint(testkit.Do(t, m, "KEYS", "*")), "[]", "written")
	})
}

// A master comes back with its data, and has no memory to write its marker. It renews and releases
// its locks: the list of masters has come back with them. It grants nothing until the marker is
// written and the quarantine is over.
func TestARestartOutOfMemory(t *testing.T) {
	t.Parallel()
	// With everysec a write waits for the fsync before it, and is lost with the process.
	m := startReal(t, "--appendonly", "yes", "--appendfsync", "no", "--maxmemory", "6mb")
	n := openQuarantined(t, m.URL(), short)
	testkit.Eventually(t, "admitted", func() bool { return isGranted(do(t, n, acquireFor(short, "k", "o:1"))) })
	mustGrant(t, do(t, n, acquireFor(short, "kept", "o:1")))
	for _, key := range []string{"k", "kept"} {
		testkit.Do(t, m, "PERSIST", key) // the key outlives any restart
	}
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory", "0")
	testkit.Do(t, m, "SET", "ballast", strings.Repeat("x", 8<<20))
	testkit.Must(t, m.Kill())
	testkit.Must(t, m.Start())

	renewal := scripts.Renew(members, scripts.ToMillis(lease), []scripts.Renewal{
		{Names: testkit.Names("kept"), Owner: scripts.OwnerOf("o:1"), Token: 1},
		{Names: testkit.Names("gone"), Owner: scripts.OwnerOf("o:1"), Token: 1},
	})
	var r pipeline.Result
	testkit.Eventually(t, "found again", func() bool { r = do(t, n, renewal); return r.Err == nil })
	testkit.Check(t, slices.Equal(r.Reply.Renew, []scripts.Renewed{scripts.Kept, scripts.Gone}) &&
		r.Reply.NotAccepted != nil,
		"before the marker is written, renewed %v, refused %v", r.Reply.Renew, r.Reply.NotAccepted)
	repair := scripts.AcquireArgs{Names: testkit.Names("l"), Owner: scripts.OwnerOf("o:1"), Depth: 1, Token: 7,
		Lease: scripts.ToMillis(short), List: members}
	for what, call := range map[string]scripts.Call{"a fresh one": acquireFor(short, "l", "o:2"), "a repair": scripts.Acquire(repair)} {
		r := do(t, n, call)
		err := fmt.Sprint(r.Err)
		testkit.Check(t, !isGranted(r) && strings.Contains(err, "OOM") && !strings.Contains(err, node.ErrDown.Error()) &&
			r.NothingDone == redistest.Has(redistest.PlainScriptErrors),
			"%s: answered %v, %v, void %v: want OOM", what, r.Reply, r.Err, r.NothingDone)
	}
	testkit.Equal(t, do(t, n, release("k", "o:1")).Reply.Release.Found, 1, "released")

	began := stopwatch(t)
	testkit.Do(t, m, "DEL", "ballast")
	testkit.Eventually(t, "memory is free", func() bool { return do(t, n, acquireFor(short, "l", "o:2")).Err == nil })
	r = do(t, n, renewal)
	testkit.Check(t, r.Err == nil && slices.Equal(r.Reply.Renew, []scripts.Renewed{scripts.Kept, scripts.Gone}),
		"once it is marked, renewed %v, %v", r.Reply.Renew, r.Err)
	testkit.Eventually(t, "granted", func() bool { return isGranted(do(t, n, acquireFor(short, "l", "o:2"))) })
	took(t, "quarantine", began, short, short)
}

// A server without memory, too, refuses a client with another max lease.
func TestAnotherMaxLeaseIsRefusedOutOfMemory(t *testing.T) {
	m := startReal(t)
	testkit.Must(t, operator.Admit(t.Context(), openQuarantined(t, m.URL(), time.Minute)))
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory", "1")
	refuses(t, openQuarantined(t, m.URL(), time.Hour), node.ErrMaxLease)
}
