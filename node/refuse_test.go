package node_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// refuses wants a call to fail permanently with that error.
func refuses(t *testing.T, n *node.Node, target error) {
	t.Helper()
	err := do(t, n, acquire("k", "o:1")).Err
	mustFail(t, n, err, target)
	mustFail(t, n, err, node.ErrDown)
	isPermanent(t, err)
}

func isPermanent(t *testing.T, err error) {
	t.Helper()
	failed, ok := errors.AsType[*node.Error](err)
	testkit.Check(t, ok && failed.Permanent(), "not permanent: %v", err)
}

func hostPort(t *testing.T, m *redistest.Master) (string, string) {
	t.Helper()
	host, port, ok := strings.Cut(m.Addr(), ":")
	testkit.Require(t, ok, "%v", m.Addr())
	return host, port
}

func TestAReplicaIsRefused(t *testing.T) {
	master, m := startReal(t), startReal(t)
	host, port := hostPort(t, master)
	testkit.Do(t, m, "REPLICAOF", host, port)
	n := open(t, m.URL())
	refuses(t, n, node.ErrReplica)
	mustFail(t, n, operator.Admit(t.Context(), n), node.ErrReplica)
	testkit.Do(t, m, "REPLICAOF", "NO", "ONE")
	testkit.Eventually(t, "a master is found again", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
}

func TestAServerThatEvictsIsRefused(t *testing.T) {
	m := startReal(t)
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory", "100mb")
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	n := open(t, m.URL())
	refuses(t, n, node.ErrEvicts)
	mustFail(t, n, operator.Admit(t.Context(), n), node.ErrEvicts)
	testkit.Do(t, m, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	testkit.Eventually(t, "it is found again", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
}

func TestAnotherMaxLeaseIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		first := open(t, m.URL(), node.WithMaxLease(time.Minute))
		mustGrant(t, do(t, first, acquireFor(time.Minute, "k", "o:1")))
		second := open(t, m.URL())
		refuses(t, second, node.ErrMaxLease)
		err := do(t, second, acquire("l", "o:2")).Err
		testkit.Check(t, strings.Contains(err.Error(), "1m0s") && strings.Contains(err.Error(), "30s"),
			"the error does not name both: %v", err)

		testkit.Must(t, operator.Admit(t.Context(), second)) // the operator changes the deployment's max lease
		testkit.Eventually(t, "the second works", func() bool { return isGranted(do(t, second, acquire("l", "o:2"))) })
		r := do(t, first, acquireFor(time.Minute, "m", "o:1")) // over the live connection
		mustFail(t, first, r.Err, node.ErrMaxLease)
		isPermanent(t, r.Err)
	})
}

// withUser gives the server a user for database 3 and the given rules, and disables the default one
// alongside the test's.
func withUser(t *testing.T, m *redistest.Master, rules ...string) {
	t.Helper()
	rules = append([]string{"on", ">se/cr@et %", "~*", "&*", "+@all"}, rules...)
	testkit.Do(t, m, redistest.SetUser("app", rules...)...)
}

func TestAUserWithPasswordAndDatabase(t *testing.T) {
	m := startReal(t)
	withUser(t, m)
	testkit.Do(t, m, "ACL", "SETUSER", "default", "resetpass", ">other")
	n := open(t, "redis://app:se%2Fcr%40et%20%25@"+m.Addr()+"/3", node.WithTLS(nil))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	c, err := redis.Dial("tcp", m.Addr(), redis.DialUsername("default"), redis.DialPassword("other"), redis.DialDatabase(3))
	testkit.Must(t, err)
	defer c.Close()
	there, err := redis.Bool(c.Do("EXISTS", "k"))
	testkit.Check(t, there, "the key is not in database 3: %v", err)
}

func TestBadCredentials(t *testing.T) {
	m := startReal(t)
	withUser(t, m, "-eval", "-evalsha")
	for what, test := range map[string]struct{ user, reason string }{
		"wrong password":        {"app:wrong%2Fpass@", "WRONGPASS"},
		"wrong user":            {"wrong%2Fpass:wrong%2Fpass@", "WRONGPASS"},
		"no right to scripts":   {"app:se%2Fcr%40et%20%25@", "NOPERM"},
		"a password not wanted": {":wrong%2Fpass@", "ERR AUTH"},
	} {
		n := open(t, "redis://"+test.user+m.Addr(), node.WithName("")) // named by the URL
		err := do(t, n, acquire("k", "o:1")).Err
		mustFail(t, n, err, node.ErrDown)
		isPermanent(t, err)
		testkit.Check(t, strings.Contains(err.Error(), test.reason), "%s: %v, want it to say %s", what, err, test.reason)
		_, checkErr := operator.Check(t.Context(), n)
		for _, text := range []string{err.Error(), n.Name(), fmt.Sprint(checkErr)} {
			for _, secret := range []string{"wrong/pass", "wrong%2Fpass", "se/cr@et", "se%2Fcr"} {
				testkit.Check(t, !strings.Contains(text, secret), "%s: %q reveals the password", what, text)
			}
		}
	}

	testkit.Do(t, m, "CONFIG", "SET", "requirepass", "secret")
	var s seen
	n := open(t, m.URL(), node.WithHooks(s.hooks()))
	err := do(t, n, acquire("k", "o:1")).Err
	testkit.Check(t, strings.Contains(fmt.Sprint(err), ": connect: refused: ") && strings.Contains(fmt.Sprint(err), "NOAUTH"), "no password: %v", err)
	isPermanent(t, err)
	testkit.Equal(t, n.LastError().Code(), "NOAUTH", "the last error")
	err = do(t, open(t, "redis://:wrong@"+m.Addr()), acquire("k", "o:1")).Err
	testkit.Check(t, strings.Contains(fmt.Sprint(err), "WRONGPASS"), "another password: %v", err)
	testkit.Equal(t, n.State(), inside.Refused, "the state: it is not down")
	testkit.Eventually(t, "the hook is told", func() bool { return s.lastState().State == inside.Refused })
	mustGrant(t, do(t, open(t, "redis://:secret@"+m.Addr()), acquire("k", "o:1")))
}

func TestAMissingDatabase(t *testing.T) {
	m := startReal(t)
	isPermanent(t, do(t, open(t, m.URL()+"/99"), acquire("k", "o:1")).Err)
}

func TestAKeyOfAnotherTypeIsPermanent(t *testing.T) {
	m := startReal(t)
	testkit.Do(t, m, "SET", "k", "text")
	n := open(t, m.URL())
	isPermanent(t, do(t, n, acquire("k", "o:1")).Err)
	mustGrant(t, do(t, n, acquire("l", "o:1"))) // the error concerned that key only
}

// A server that answers INFO without a run id will not have one later: a call must not wait for that.
func TestAServerWithoutARunIDIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := testkit.NewServer(t, timeout, func(c net.Conn) {
			canned.Serve(c, func(args []string) string {
				if reply, ok := greeting(args); ok && args[0] != "INFO" {
					return reply
				}
				return bulk("redis_version:7.0.0\r\n")
			})
		})
		refuses(t, openPool(t, srv.Pool), node.ErrInvalid)
	})
}

// A server that runs no scripts is refused for good, and Check and Admit say why. So is a call of one that does not know a
// command of the script. Scripts come with the calls that need them: SCRIPT is not needed.
func TestAServerWithoutACommand(t *testing.T) {
	for _, command := range []string{"EVALSHA", "EVAL", "HSET", "SCRIPT"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			n := open(t, startReal(t, "--rename-command", command, "").URL())
			r := do(t, n, acquire("k", "o:1"))
			switch command {
			case "SCRIPT":
				mustGrant(t, r)
			case "HSET":
				isPermanent(t, r.Err)
				testkit.Check(t, strings.Contains(fmt.Sprint(r.Err), "(HSET)"), "it does not name the command: %v", r.Err)
			default:
				mustFail(t, n, r.Err, node.ErrDown)
				_, err := operator.Check(t.Context(), n)
				for _, err := range []error{r.Err, err, operator.Admit(t.Context(), n)} {
					mustFail(t, n, err, node.ErrScripts)
					isPermanent(t, err)
				}
			}
		})
	}
}

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
