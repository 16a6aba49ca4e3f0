package node_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

func check(t *testing.T, n *node.Node) operator.Report {
	t.Helper()
	return testkit.Got(operator.Check(t.Context(), n))(t)
}

// warns wants exactly these hazards, each given by a part of its sentence.
func warns(t *testing.T, report operator.Report, parts ...string) {
	t.Helper()
	testkit.Check(t, len(report.Hazards) == len(parts), "hazards %q, want %d: %q", report.Hazards, len(parts), parts)
	for _, part := range parts {
		testkit.Check(t, strings.Contains(strings.Join(report.Hazards, "\n"), part),
			"hazards %q: none says %q", report.Hazards, part)
	}
}

// version returns what a server says of its version, as a report has it.
func version(t *testing.T, m *redistest.Master) string {
	t.Helper()
	info := testkit.Got(redis.String(m.Do("INFO", "server")))(t)
	if strings.Contains(info, "valkey_version:") {
		return "valkey " + testkit.Info(t, m, "server", "valkey_version")
	}
	return testkit.Info(t, m, "server", "redis_version")
}

func TestCheck(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := openQuarantined(t, m.URL(), time.Hour)
		before := testkit.Got(redis.Strings(m.Do("KEYS", "*")))(t)
		persistence := "none"
		if config, err := redis.Strings(m.Do("CONFIG", "GET", "save")); err != nil || len(config) == 0 || !redistest.Has(redistest.AskedRights) { // a stand-in
			persistence = "unknown"
		}
		began := time.Now()
		report := check(t, n)
		took := time.Since(began)
		after, err := redis.Strings(m.Do("KEYS", "*"))
		testkit.Check(t, err == nil && len(after) == len(before), "Check wrote %q (%v)", after, err)
		testkit.Check(t, report.Name == n.Name() && report.Role == "master" && report.Version == version(t, m) &&
			report.RunID == testkit.Info(t, m, "server", "run_id") && report.Uptime <= time.Minute &&
			report.EvictionPolicy == "noeviction" && report.MaxMemory == 0 && report.Persistence == persistence &&
			report.Quarantine == time.Hour && report.MaxLease == 0 && report.Refused == nil && report.Member == "" &&
			len(report.Members) == 0 && report.Generation == 0 && len(report.Next) == 0 && report.RoundTrip > 0 &&
			report.RoundTrip <= took, "a master not in use: %+v", report)
		warns(t, report, "no client has used this server")
		testkit.Equal(t, check(t, open(t, m.URL(), node.WithName(""))).Name, m.Addr(), "its name without one")

		quarantined(t, do(t, n, acquireFor(time.Hour, "k", "o:1")), time.Hour)
		report = check(t, n)
		testkit.Check(t, report.Quarantine > time.Hour-time.Minute && report.Quarantine <= time.Hour &&
			report.MaxLease == time.Hour, "quarantine of %v is left, max lease %v", report.Quarantine, report.MaxLease)
		warns(t, report, "in quarantine for another")
		testkit.Check(t, report.Member == nodeName && slices.Equal(report.Members, []string{nodeName}) &&
			report.Generation == 1 && len(report.Next) == 0,
			"marked, it is the member %q of %q in generation %d, next %q",
			report.Member, report.Members, report.Generation, report.Next)

		testkit.Must(t, operator.Admit(t.Context(), n))
		report = check(t, n)
		testkit.Equal(t, report.Quarantine, 0, "quarantine of one that is admitted")
		warns(t, report)
		warns(t, check(t, open(t, m.URL(), node.WithMaxLease(time.Hour))), "quarantine is switched off")

		report = check(t, openQuarantined(t, m.URL(), time.Minute))
		testkit.Check(t, errors.Is(report.Refused, node.ErrMaxLease) && report.MaxLease == time.Hour,
			"to a client with another max lease: refused %v, max lease %v", report.Refused, report.MaxLease)
		warns(t, report, "max lease differs")
	})
}

func TestCheckOfAServerWithHazards(t *testing.T) {
	m, master := startReal(t, "--appendonly", "yes"), startReal(t)
	n := openQuarantined(t, m.URL(), time.Hour)
	testkit.Must(t, operator.Admit(t.Context(), n))
	mark(t, n)
	testkit.Equal(t, check(t, n).Persistence, "aof", "persistence")
	testkit.Do(t, m, "CONFIG", "SET", "save", "60 1000")
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory", "100mb")
	both, rdb := "rdb+aof", "rdb"
	if !redistest.Has(redistest.AskedRights) {
		both, rdb = "aof", "unknown"
	}
	report := check(t, n)
	testkit.Check(t, report.Persistence == both && report.MaxMemory == 100<<20,
		"persistence %q, maxmemory %d", report.Persistence, report.MaxMemory)
	warns(t, report)
	testkit.Do(t, m, "SETRANGE", "ballast", 20<<20, "x")
	used := testkit.Got(strconv.Atoi(testkit.Info(t, m, "memory", "used_memory")))(t)
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory", used/9*10)
	warns(t, check(t, n), "that maxmemory allows are used")
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	testkit.Do(t, m, "CONFIG", "SET", "appendonly", "no")
	report = check(t, n)
	testkit.Check(t, report.EvictionPolicy == "volatile-ttl" && report.Persistence == rdb,
		"persistence %q, policy %q", report.Persistence, report.EvictionPolicy)
	warns(t, report, "may evict locks")
	testkit.Check(t, errors.Is(report.Refused, node.ErrEvicts), "refused %v, want ErrEvicts", report.Refused)
	report = check(t, openQuarantined(t, m.URL(), time.Minute))
	testkit.Check(t, errors.Is(report.Refused, node.ErrEvicts), "with another max lease, too: refused %v, want ErrEvicts", report.Refused)
	testkit.Do(t, m, "DEL", scripts.MarkerKey)
	report = check(t, n)
	testkit.Equal(t, report.Quarantine, time.Hour, "the quarantine of one that is refused, and blank")
	warns(t, report, "may evict locks")
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory", "0")
	testkit.Must(t, operator.Admit(t.Context(), n))
	mark(t, n)
	warns(t, check(t, n))

	testkit.Do(t, master, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	of := openQuarantined(t, master.URL(), time.Hour)
	testkit.Must(t, operator.Admit(t.Context(), of))
	mark(t, of)
	host, port := hostPort(t, master)
	testkit.Do(t, m, "REPLICAOF", host, port)
	testkit.Eventually(t, "the replica in step", func() bool { return testkit.Info(t, m, "replication", "master_link_status") == "up" })
	warns(t, check(t, of), "replicas are attached")
	report = check(t, n)
	testkit.Check(t, report.Role == "slave" && errors.Is(report.Refused, node.ErrReplica) &&
		strings.Contains(strings.Join(report.Hazards, "\n"), "is a replica"), "of a replica: %+v", report)
}

// A server that refuses writes grants nothing, and its report says why. Nothing is written to find out.
func TestCheckOfAServerThatRefusesWrites(t *testing.T) {
	m := startReal(t)
	n := open(t, m.URL())
	testkit.Check(t, check(t, n).RefusesWrites == nil, "of one that takes them: %v", check(t, n).RefusesWrites)
	for _, test := range []struct {
		meanwhile, after []any
		says             string
	}{
		{[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}, "OOM "},
		{[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}, "NOREPLICAS "},
		{redistest.SetUser("default", "resetkeys", "~quorumlock:marker"), redistest.SetUser("default", "~*"), "(the user needs the keys quorumlock:* and the names of its locks)"},
	} {
		testkit.Do(t, m, test.meanwhile...)
		report := check(t, n)
		testkit.Do(t, m, test.after...)
		var failed *node.Error
		testkit.Check(t, errors.As(report.RefusesWrites, &failed) && failed.Node == n.Name() && strings.Contains(failed.Error(), test.says),
			"refuses writes: %v, want %q", report.RefusesWrites, test.says)
		testkit.Check(t, strings.Contains(strings.Join(report.Hazards, "\n"), "it grants nothing, because it refuses writes: "), "hazards %q", report.Hazards)
	}
	testkit.Equal(t, testkit.Do(t, m, "DBSIZE"), any(int64(0)), "keys")
}

func TestCheckByAUserWithFewPermissions(t *testing.T) {
	m := startReal(t)
	testkit.Do(t, m, redistest.SetUser("app", "on", ">secret", "~*", "&*", "+@all", "-config")...)
	report := check(t, open(t, "redis://app:secret@"+m.Addr()))
	testkit.Check(t, report.Role == "master" && report.Persistence == "unknown", "%+v", report)
	testkit.Do(t, m, "CONFIG", "SET", "appendonly", "yes")
	testkit.Equal(t, check(t, open(t, "redis://app:secret@"+m.Addr())).Persistence, "aof", "persistence")
	denied, err := redis.Values(m.Do("ACL", "LOG"))
	testkit.Check(t, err == nil && len(denied) == 0, "ACL LOG has %q, %v", denied, err)
}

func TestCheckIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := testkit.NewServer(t, timeout, fakeredis.New(time.Now, 1).Serve)
		n := openPool(t, srv.Pool, node.WithTimeout(timeout))
		mustGrant(t, do(t, n, acquire("k", "o:1")))
		srv.SetServe(func(c net.Conn) { io.Copy(io.Discard, c) })
		for what, call := range map[string]func() error{
			"Check": func() error { _, err := operator.Check(t.Context(), n); return err },
			"Admit": func() error { return operator.Admit(t.Context(), n) },
		} {
			began := stopwatch(t)
			mustFail(t, n, call(), node.ErrTimeout)
			took(t, what, began, redisconn.ConnectTimeout(timeout), redisconn.ConnectTimeout(timeout))
		}
	})
}

func TestOptions(t *testing.T) {
	for what, opt := range map[string]node.Option{
		"no timeout":         node.WithTimeout(0),
		"a negative timeout": node.WithTimeout(-time.Second),
		"a long timeout":     node.WithTimeout(24*time.Hour + 1),
		"an endless timeout": node.WithTimeout(math.MaxInt64),
		"an endless lease":   node.WithMaxLease(math.MaxInt64 / 1e6 * 1e6),
		"no max lease":       node.WithMaxLease(0),
		"a short max lease":  node.WithMaxLease(9 * time.Millisecond),
		"a long max lease":   node.WithMaxLease(366 * 24 * time.Hour),
		"an odd max lease":   node.WithMaxLease(time.Second + time.Microsecond),
		"no connections":     node.WithConns(0),
		"many connections":   node.WithConns(65),
		"a long name":        node.WithName(strings.Repeat("x", 256)),
	} {
		n, err := node.Open("redis://h", opt)
		testkit.Check(t, errors.Is(err, node.ErrInvalid) && n == nil, "%s: Open gives %v", what, err)
		n, err = node.New(&redis.Pool{}, opt)
		testkit.Check(t, errors.Is(err, node.ErrInvalid) && n == nil, "%s: New gives %v", what, err)
	}
	n, err := node.New(nil)
	testkit.Check(t, errors.Is(err, node.ErrInvalid) && n == nil, "New(nil) gives %v", err)
	n = open(t, "redis://:secret@h", node.WithName("north"), node.WithTimeout(time.Second),
		node.WithMaxLease(time.Hour), node.WithConns(64))
	testkit.Check(t, n.Name() == "north" && n.Timeout() == time.Second && n.MaxLease() == time.Hour,
		"%q, %v, %v", n.Name(), n.Timeout(), n.MaxLease())
	longest := strings.Repeat("x", 255)
	testkit.Check(t, open(t, "redis://h", node.WithName(longest)).Name() == longest, "a name of 255 bytes is changed")
	defaults := testkit.Got(node.Open("redis://h"))(t)
	testkit.Check(t, defaults.Timeout() == node.DefaultTimeout && defaults.MaxLease() == node.DefaultMaxLease,
		"by default %v, %v", defaults.Timeout(), defaults.MaxLease())
}

// Check reports its own failure, also when its context ends at the same moment.
func TestCheckReportsItsOwnFailure(t *testing.T) {
	// More threads than processors: the scheduler may halt a thread at any line.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16 * runtime.NumCPU()))
	reason := errors.New("no route")
	n := openPool(t, &redis.Pool{Dial: func() (redis.Conn, error) { return nil, reason }}, node.WithTimeout(bound))
	var running sync.WaitGroup
	var wrong atomic.Int64
	for range 64 {
		running.Go(func() {
			for range 100 {
				if _, err := operator.Check(t.Context(), n); !errors.Is(err, reason) {
					wrong.Add(1)
				}
			}
		})
	}
	running.Wait()
	testkit.Equal(t, wrong.Load(), 0, "calls of Check, of 6400, that do not report why they failed")
}

// Check reports the caller's deadline, also when the connection, which has the same deadline, ends
// first.
func TestCheckReportsTheCallersDeadline(t *testing.T) {
	t.Parallel()
	m, n := openReal(t)
	check(t, n)
	testkit.Must(t, m.Freeze())
	defer func() { testkit.Must(t, m.Thaw()) }()
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := operator.Check(ctx, n)
		cancel()
		mustFail(t, n, err, context.DeadlineExceeded)
	}
}

// writeMarker gives the master the marker of its own process, changed as the test wants it.
func writeMarker(t *testing.T, m *redistest.Master, change func(*scripts.Marker)) {
	t.Helper()
	marker := scripts.Marker{Process: scripts.Process{Run: testkit.Info(t, m, "server", "run_id"), MaxLease: time.Hour, Member: nodeName},
		Generation: 7, Members: members, Next: scripts.NewList()}
	change(&marker)
	testkit.Do(t, m, "SET", scripts.MarkerKey, marker.String())
}

// The list must have the master, and no URL in the place of a name. It is not contacted otherwise.
func TestAdmitMembersWithoutTheMaster(t *testing.T) {
	n := open(t, "redis://127.0.0.1:1")
	tooMany := []string{nodeName}
	for i := range 64 {
		tooMany = append(tooMany, strconv.Itoa(i))
	}
	for _, list := range [][]string{nil, {}, {"other"}, tooMany, {nodeName + "x", "a", "b"},
		{"redis://:secret@h"}, {nodeName, "redis://:secret@h"}} {
		err := operator.AdmitMembers(t.Context(), n, list)
		mustFail(t, n, err, node.ErrInvalid)
		isPermanent(t, err)
		testkit.Check(t, !strings.Contains(err.Error(), "secret"), "a password in %v", err)
	}
	spelt := open(t, "redis://127.0.0.1:1", node.WithName("A.example.:1"))
	err := operator.AdmitMembers(t.Context(), spelt, []string{"[::FFFF:1.2.3.4]:1", "a.EXAMPLE:01"})
	testkit.Check(t, err != nil && !errors.Is(err, node.ErrInvalid), "a list that spells the master in another way: %v", err)
	err = operator.AdmitMembers(t.Context(), n, []string{"a", nodeName, "b"})
	testkit.Check(t, err != nil && !errors.Is(err, node.ErrInvalid),
		"a list that has the master: %v, want that it does not answer", err)
}

// What Check says of a master by its marker.
func TestCheckOfTheMarker(t *testing.T) {
	m := startEmbedded(t)
	n := openQuarantined(t, m.URL(), time.Hour)
	since := func(ago time.Duration) time.Duration {
		return time.Duration(time.Now().Add(-ago).UnixNano()).Truncate(time.Millisecond)
	}
	three := scripts.NewList("a", nodeName, "z")
	four := change.With(three, "n")
	const blank = "no client has used this server"
	claimed := "is being marked for " + three.String()
	for what, c := range map[string]struct {
		change     func(*scripts.Marker)
		want       operator.Report // of the marker
		quarantine time.Duration
		hazards    []string
	}{
		"marked": {func(w *scripts.Marker) { w.Members = three },
			operator.Report{Member: nodeName, Members: three.Names(), Generation: 7}, 0, nil},
		"in a change": {func(w *scripts.Marker) { w.Members, w.Next = three, four },
			operator.Report{Member: nodeName, Members: three.Names(), Generation: 7, Next: four.Names()}, 0, nil},
		"in quarantine": {func(w *scripts.Marker) { w.Admitted = since(-30 * time.Minute) },
			operator.Report{Member: nodeName, Members: members.Names(), Generation: 7}, 30 * time.Minute, []string{"in quarantine for another "}},
		"its clock was set back": {func(w *scripts.Marker) { w.Admitted = since(-30 * time.Hour) },
			operator.Report{Member: nodeName, Members: members.Names(), Generation: 7}, time.Hour, []string{"in quarantine for another 1h0m0s"}},
		"of another process": {func(w *scripts.Marker) { w.Run = "another" }, operator.Report{}, time.Hour, []string{blank}},
		"claimed": {func(w *scripts.Marker) { w.Members, w.Claimed, w.Admitted = three, true, since(-30*time.Minute) },
			operator.Report{}, 30 * time.Minute, []string{claimed + ": this master accepts nobody until its quarantine is over", "in quarantine for another "}},
		"claimed, of another process": {func(w *scripts.Marker) { w.Claimed, w.Run = true, "another" }, operator.Report{}, time.Hour, []string{blank}},
		"claimed, another member": {func(w *scripts.Marker) {
			w.Member, w.Members, w.Claimed, w.Admitted = "z", three, true, since(-30*time.Minute)
		},
			operator.Report{Refused: node.ErrMembership}, 30 * time.Minute, []string{"this master is the member z of", claimed, "in quarantine for another "}},
		"being added": {func(w *scripts.Marker) { w.Members, w.Claimed = scripts.NewList("a", "z"), true },
			operator.Report{}, time.Minute, []string{"it is being added to {a, z}: this master accepts nobody until the same members add goes on"}},
		"retired": {func(w *scripts.Marker) { w.Members = scripts.NewList("a", "z") },
			operator.Report{Member: nodeName, Members: []string{"a", "z"}, Generation: 7, Refused: node.ErrMembership}, 0,
			[]string{"retired: it is no member of {a, z} (generation 7)"}},
		"claimed, its quarantine over, not finished": {func(w *scripts.Marker) {
			w.Members, w.Claimed = three, true
		},
			operator.Report{}, time.Minute + time.Millisecond, []string{claimed + ": this master accepts nobody until a client with that list locks"}},
		"admitted": {func(w *scripts.Marker) {
			w.Members, w.Generation, w.Admitted = scripts.NewList(), 0, since(time.Minute)
		},
			operator.Report{}, 0, []string{"an operator admitted it, and no client has marked it since: unless one uses this server within 5"}},
		"admitted for too long": {func(w *scripts.Marker) {
			w.Members, w.Generation, w.Admitted = scripts.NewList(), 0, since(61*time.Minute)
		},
			operator.Report{}, time.Hour, []string{blank}},
		"another member": {func(w *scripts.Marker) { w.Member, w.Members = "z", three },
			operator.Report{Member: "z", Members: three.Names(), Generation: 7, Refused: node.ErrMembership}, 0,
			[]string{"refused as a node: the lists of masters differ: this master is the member z of " + three.String() + ", and is named " + nodeName}},
	} {
		writeMarker(t, m, c.change)
		got := check(t, n)
		testkit.Check(t, got.Member == c.want.Member && slices.Equal(got.Members, c.want.Members) &&
			got.Generation == c.want.Generation && slices.Equal(got.Next, c.want.Next) &&
			errors.Is(got.Refused, c.want.Refused) && got.MaxLease == time.Hour, "%s: %+v", what, got)
		testkit.Check(t, got.Quarantine <= c.quarantine && got.Quarantine >= c.quarantine-time.Minute,
			"%s: quarantine of %v, want %v", what, got.Quarantine, c.quarantine)
		testkit.Check(t, inside.Of(got).View != nil, "%s: the report has no look", what)
		warns(t, got, c.hazards...)
	}
	testkit.Do(t, m, "SET", scripts.MarkerKey, "no marker")
	warns(t, check(t, n), blank)
}
