package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// short is the max lease in tests that wait for its end, which are parallel. A busy machine may stand
// still for most of it.
const short = 1500 * time.Millisecond

// quarantined wants the node to grant nothing, and to report the quarantine left.
func quarantined(t *testing.T, n *node.Node, maxLease time.Duration, name, owner string) {
	t.Helper()
	r := do(t, n, acquireFor(maxLease, name, owner))
	reply := outcome(r)
	if reply.Outcome != scripts.Quarantined || reply.Wait <= 0 || reply.Wait > maxLease {
		t.Fatalf("answered %+v, %v: want quarantined for up to %v", reply, r.Err, maxLease)
	}
}

// grantsAfter wants the node to grant nothing until one max lease after the stopwatch's start, and
// soon after.
func grantsAfter(t *testing.T, n *node.Node, w *poll.Stopwatch, name, owner string) {
	t.Helper()
	eventually(t, "the end of quarantine", func() bool { return isGranted(do(t, n, acquireFor(short, name, owner))) })
	took(t, "quarantine", w, short, short)
}

func TestARestartMeansQuarantine(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := openQuarantined(t, m.URL(), short)
		w := stopwatch(t)
		quarantined(t, n, short, "k", "o:1") // a new deployment waits, once
		grantsAfter(t, n, w, "k", "o:1")

		must(t, m.Kill())
		must(t, m.Start())
		began := time.Now()
		var r pipeline.Result
		eventually(t, "found again", func() bool { r = do(t, n, acquireFor(short, "k", "o:2")); return r.Err == nil })
		if reply := outcome(r); reply.Outcome != scripts.Quarantined {
			t.Fatalf("after a restart it answers %+v", reply)
		}
		eventually(t, "the end of quarantine", func() bool { return isGranted(do(t, n, acquireFor(short, "k", "o:2"))) })
		if waited := time.Since(began); waited < short {
			t.Errorf("in quarantine for %v, want %v", waited, short)
		}
	})
}

// With an append-only file the keys and the marker survive a restart. The last writes may be lost.
func TestARestartThatKeepsItsKeysMeansQuarantineToo(t *testing.T) {
	t.Parallel()
	m := startReal(t, "--appendonly", "yes", "--appendfsync", "always")
	n := openQuarantined(t, m.URL(), time.Hour)
	must(t, n.Admit(t.Context()))
	mustGrant(t, do(t, n, acquireFor(short, "k", "o:1")))
	must(t, do(t, n, scripts.Release(names("k"), scripts.OwnerOf("o:1"), 0)).Err)
	must(t, m.Kill())
	must(t, m.Start())
	eventually(t, "found again", func() bool { return do(t, n, scripts.Inspect(scripts.NewName("k"))).Err == nil })
	quarantined(t, n, time.Hour, "k", "o:2")
}

func TestASecondClientDoesNotProlongQuarantine(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	first := openQuarantined(t, m.URL(), short)
	w := stopwatch(t)
	quarantined(t, first, short, "k", "o:1")
	since := time.Now()
	eventually(t, "half of it over", func() bool { return time.Since(since) > short/2 })
	second := openQuarantined(t, m.URL(), short)
	asked := time.Since(since)
	reply := outcome(do(t, second, acquireFor(short, "k", "o:2")))
	if over := time.Since(since) >= short; !over && (reply.Outcome != scripts.Quarantined || reply.Wait > short-asked+time.Millisecond) {
		t.Errorf("after %v a second client hears %+v", asked, reply)
	}
	grantsAfter(t, second, w, "k", "o:2")
}

func TestWithoutQuarantine(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := open(t, m.URL())
		mustGrant(t, do(t, n, acquire("k", "o:1")))
		must(t, m.Kill())
		must(t, m.Start())
		var r pipeline.Result
		eventually(t, "found again", func() bool { r = do(t, n, acquire("k", "o:2")); return r.Err == nil })
		mustGrant(t, r)
		mustDo(t, m, "FLUSHALL")
		mustGrant(t, do(t, n, acquire("k", "o:3")))
	})
}

func TestAdmitEndsQuarantine(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := openQuarantined(t, m.URL(), time.Hour)
		quarantined(t, n, time.Hour, "k", "o:1")
		must(t, n.Admit(t.Context()))
		mustGrant(t, do(t, n, acquireFor(time.Hour, "k", "o:1")))

		fresh := startEmbedded(t)
		unused := openQuarantined(t, fresh.URL(), time.Hour)
		must(t, unused.Admit(t.Context()))
		mustGrant(t, do(t, unused, acquireFor(time.Hour, "k", "o:1")))
	})
}

// In quarantine a holder may re-enter and release. No other owner is granted.
func TestInQuarantineHoldersGoOn(t *testing.T) {
	m := startReal(t)
	n := openQuarantined(t, m.URL(), time.Hour)
	must(t, n.Admit(t.Context()))
	mustGrant(t, do(t, n, acquireFor(time.Hour, "k", "o:1")))
	mustDo(t, m, "DEL", scripts.MarkerKey)
	quarantined(t, n, time.Hour, "l", "o:2")

	again := scripts.AcquireArgs{Names: names("k"), Owner: scripts.OwnerOf("o:1"), Level: 2, Token: 7,
		Lease: scripts.ToMillis(time.Minute), List: members}
	mustGrant(t, do(t, n, scripts.Acquire(again)))
	batch := []scripts.Renewal{{Names: names("k"), Owner: scripts.OwnerOf("o:1"), Token: 7, Lease: scripts.ToMillis(time.Minute)}}
	r := do(t, n, scripts.Renew(members, batch))
	if r.Err != nil || r.Reply.Renew[0] != scripts.Kept {
		t.Errorf("renewed %v, %v", r.Reply.Renew, r.Err)
	}
	if r := do(t, n, release("k", "o:1")); r.Reply.Release.Found != 1 {
		t.Errorf("released %v, %v", r.Reply, r.Err)
	}
}

// The data is swapped under a live connection, and the process stays the same.
func TestDataSwappedUnderALiveConnection(t *testing.T) {
	for what, swap := range map[string]func(*testing.T, *redistest.Master){
		"FLUSHALL": func(t *testing.T, m *redistest.Master) { mustDo(t, m, "FLUSHALL") },
		"a resync": func(t *testing.T, m *redistest.Master) {
			other := startReal(t) // in use, with the same max lease, and admitted
			n := openQuarantined(t, other.URL(), time.Hour)
			must(t, n.Admit(t.Context()))
			resync(t, m, other)
		},
		"a resync from a master not in use": func(t *testing.T, m *redistest.Master) { resync(t, m, startReal(t)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := startReal(t)
			n := openQuarantined(t, m.URL(), time.Hour)
			must(t, n.Admit(t.Context()))
			mustGrant(t, do(t, n, acquireFor(time.Hour, "k", "o:1")))
			before := stat(t, m, "server", "run_id")
			swap(t, m)
			if stat(t, m, "server", "run_id") != before || exists(t, m, "k") {
				t.Fatal("the data was not swapped, or the process was")
			}
			quarantined(t, n, time.Hour, "k", "o:2")
			must(t, n.Admit(t.Context()))
			mustGrant(t, do(t, n, acquireFor(time.Hour, "k", "o:2")))
		})
	}
}

func resync(t *testing.T, m, from *redistest.Master) {
	t.Helper()
	mustDo(t, from, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	host, port := hostPort(t, from)
	mustDo(t, m, "REPLICAOF", host, port)
	eventually(t, "the replica in step", func() bool { return stat(t, m, "replication", "master_link_status") == "up" })
	mustDo(t, m, "REPLICAOF", "NO", "ONE")
}

// To connect, to identify and to look writes nothing: a client that is not accepted changes no master.
func TestIdentify(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := openQuarantined(t, m.URL(), time.Hour)
		id, err := inside.Of(n).Identify(t.Context())
		if want := stat(t, m, "server", "run_id"); err != nil || id != want {
			t.Errorf("identified as %q, %v; want %q", id, err, want)
		}
		if r := do(t, n, scripts.Inspect(scripts.NewName("k"))); r.RunID != id {
			t.Errorf("a result comes from %q", r.RunID)
		}
		if r := await(t, start(n, "key", acquireFor(time.Hour, "k", "o:1"), nil)); outcome(r).Outcome != scripts.NotAccepted {
			t.Errorf("a blank master answers %+v, %v", r.Reply, r.Err)
		}
		if exists(t, m, scripts.MarkerKey) || len(keys(t, m)) > 0 {
			t.Errorf("written: %q", mustDo(t, m, "KEYS", "*"))
		}
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
	eventually(t, "admitted", func() bool { return isGranted(do(t, n, acquireFor(short, "k", "o:1"))) })
	mustGrant(t, do(t, n, acquireFor(short, "kept", "o:1")))
	for _, key := range []string{"k", "kept"} {
		mustDo(t, m, "PERSIST", key) // the key outlives any restart
	}
	mustDo(t, m, "CONFIG", "SET", "maxmemory", "0")
	mustDo(t, m, "SET", "ballast", strings.Repeat("x", 8<<20))
	must(t, m.Kill())
	must(t, m.Start())

	renewal := scripts.Renew(members, []scripts.Renewal{
		{Names: names("kept"), Owner: scripts.OwnerOf("o:1"), Token: 1, Lease: scripts.ToMillis(lease)},
		{Names: names("gone"), Owner: scripts.OwnerOf("o:1"), Token: 1, Lease: scripts.ToMillis(lease)},
	})
	var r pipeline.Result
	eventually(t, "found again", func() bool { r = do(t, n, renewal); return r.Err == nil })
	if !slices.Equal(r.Reply.Renew, []scripts.Renewed{scripts.Kept, scripts.Gone}) || r.Reply.NotAccepted == nil {
		t.Errorf("before the marker is written, renewed %v, refused %v", r.Reply.Renew, r.Reply.NotAccepted)
	}
	repair := scripts.AcquireArgs{Names: names("l"), Owner: scripts.OwnerOf("o:1"), Level: 1, Token: 7,
		Lease: scripts.ToMillis(short), List: members}
	for what, call := range map[string]scripts.Call{"a fresh one": acquireFor(short, "l", "o:2"), "a repair": scripts.Acquire(repair)} {
		r := do(t, n, call)
		if err := errorText(r.Err); isGranted(r) || !strings.Contains(err, "OOM") || strings.Contains(err, node.ErrDown.Error()) || r.NothingDone != redistest.Has(redistest.PlainScriptErrors) {
			t.Errorf("%s: answered %v, %v, void %v: want OOM", what, r.Reply, r.Err, r.NothingDone)
		}
	}
	if r := do(t, n, release("k", "o:1")); r.Reply.Release.Found != 1 {
		t.Errorf("released %v, %v", r.Reply, r.Err)
	}

	began := stopwatch(t)
	mustDo(t, m, "DEL", "ballast")
	eventually(t, "memory is free", func() bool { return do(t, n, acquireFor(short, "l", "o:2")).Err == nil })
	if r = do(t, n, renewal); r.Err != nil || !slices.Equal(r.Reply.Renew, []scripts.Renewed{scripts.Kept, scripts.Gone}) {
		t.Errorf("once it is marked, renewed %v, %v", r.Reply.Renew, r.Err)
	}
	eventually(t, "granted", func() bool { return isGranted(do(t, n, acquireFor(short, "l", "o:2"))) })
	took(t, "quarantine", began, short, short)
}

// A server without memory, too, refuses a client with another max lease.
func TestAnotherMaxLeaseIsRefusedOutOfMemory(t *testing.T) {
	m := startReal(t)
	must(t, openQuarantined(t, m.URL(), time.Minute).Admit(t.Context()))
	mustDo(t, m, "CONFIG", "SET", "maxmemory", "1")
	refuses(t, openQuarantined(t, m.URL(), time.Hour), node.ErrMaxLease)
}

// A server that refuses writes can be read, and grants once it writes again.
func TestAServerThatRefusesWritesIsNotDown(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	mustDo(t, m, "CONFIG", "SET", "min-replicas-to-write", "1")
	n := openQuarantined(t, m.URL(), short)
	must(t, do(t, n, scripts.Inspect(scripts.NewName("k"))).Err)
	mustSay(t, do(t, n, acquireFor(short, "k", "o:1")), "NOREPLICAS")
	mustDo(t, m, "CONFIG", "SET", "min-replicas-to-write", "0")
	eventually(t, "granted", func() bool { return isGranted(do(t, n, acquireFor(short, "k", "o:1"))) })
}
