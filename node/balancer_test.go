package node_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

const twoMasters = "one address leads to two masters"

// balance starts masters behind one address, to which new connections go in turn.
func balance(t *testing.T, n int) (f *forward.Forward, ms []*redistest.Master) {
	t.Helper()
	ms = testkit.Real(t, n).Masters
	f = testkit.Got(forward.New(ms[0].Addr()))(t)
	t.Cleanup(f.Close)
	var all []string
	for _, m := range ms {
		all = append(all, m.Addr())
	}
	f.Lead(all...)
	return f, ms
}

// refusesTwo wants a call to fail permanently because the address leads to two masters.
func refusesTwo(t *testing.T, n *node.Node) {
	t.Helper()
	err := do(t, n, acquire("k", "o:1")).Err
	mustFail(t, n, err, node.ErrInvalid)
	testkit.Check(t, strings.Contains(err.Error(), twoMasters), "the error %v", err)
	isPermanent(t, err)
	testkit.Equal(t, n.State(), inside.Refused, "the state")
}

// A balancer before several masters: no client gets anything from any of them, not by the first request either. Once
// the address leads to one of them, it is used.
func TestABalancerBeforeSeveralMasters(t *testing.T) {
	t.Parallel()
	for _, masters := range []int{2, 3} {
		f, ms := balance(t, masters)
		for range 3 {
			for _, n := range []*node.Node{open(t, "redis://"+f.Addr()), openPool(t, poolOf(f.Addr()))} {
				refusesTwo(t, n)
				testkit.Must(t, n.Close()) // its probes would take turns
			}
		}
		log := &lines{}
		n := open(t, "redis://"+f.Addr(), log.option())
		for range 5 {
			refusesTwo(t, n)
		}
		for _, m := range ms {
			testkit.Equal(t, len(keys(t, m)), 0, "locks")
		}
		testkit.Eventually(t, "logged", func() bool { return log.logged("node refused", twoMasters) > 0 })
		testkit.Equal(t, log.logged("node refused", twoMasters), 1, log.String())
		testkit.Is(t, operator.Admit(t.Context(), n), node.ErrInvalid, "an admission by way of a balancer")

		f.Lead(ms[1].Addr())
		testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
		testkit.Equal(t, check(t, n).Refused, nil, "refused by Check")
	}
}

// A balancer that chooses by chance may lead to one master twice. It is found out by the next connection that leads
// elsewhere: the one of messages, or one more for calls. Both are ended, although both masters are well. Then four more
// connections must lead to one master.
func TestABalancerThatIsFoundOutLater(t *testing.T) {
	t.Parallel()
	for what, next := range map[string]func(n *node.Node){
		"messages": func(n *node.Node) { t.Cleanup(inside.Of(n).Subscriptions.Subscribe("c", subscriber{})) },
		"calls":    func(n *node.Node) { start(n, "b", acquire("l", "o:1"), nil) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f, ms := balance(t, 2)
			a, b := ms[0].Addr(), ms[1].Addr()
			f.Lead(a)
			log := &lines{}
			n := open(t, "redis://"+f.Addr(), log.option(), node.WithConns(2))
			mustGrant(t, doAt(t, n, "a", acquire("k", "o:1")))
			f.Lead(b, b, a, a, a, b)
			next(n)
			testkit.Eventually(t, "logged", func() bool { return log.logged("node refused", twoMasters) == 1 })
			testkit.Eventually(t, "no connection of the lock's", func() bool {
				return n.State() == inside.Refused && clients(t, ms[0])+clients(t, ms[1]) == 0
			})
			refusesTwo(t, n)

			f.Lead(b)
			testkit.Eventually(t, "granted by the other", func() bool {
				r := doAt(t, n, "a", acquire("k", "o:1"))
				return isGranted(r) && r.RunID == runID(t, ms[1])
			})
		})
	}
}

// Check finds a balancer that calls have not.
func TestCheckOfABalancer(t *testing.T) {
	t.Parallel()
	f, ms := balance(t, 2)
	f.Lead(ms[0].Addr())
	n := open(t, "redis://"+f.Addr())
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	a, b := ms[0].Addr(), ms[1].Addr()
	f.Lead(a, a, a, a, a, a, a, a, b) // the last of eight behind its own
	err := check(t, n).Refused
	testkit.Check(t, errors.Is(err, node.ErrInvalid) && strings.Contains(err.Error(), twoMasters), "%v", err)
}

// A master that restarts, or is replaced by another while it is dead, has another run id. That is no balancer.
func TestAnotherProcessBehindAnAddressIsNoBalancer(t *testing.T) {
	t.Parallel()
	f, ms := balance(t, 2)
	f.Lead(ms[0].Addr())
	log := &lines{}
	n := open(t, "redis://"+f.Addr(), log.option(), node.WithConns(2))
	defer inside.Of(n).Subscriptions.Subscribe("c", subscriber{})()
	granted := func(by *redistest.Master) {
		t.Helper()
		for _, key := range []string{"a", "b"} {
			testkit.Eventually(t, "granted", func() bool {
				r := doAt(t, n, key, acquire("k:"+key, "o:1"))
				return isGranted(r) && r.RunID == runID(t, by)
			})
		}
	}
	granted(ms[0])
	testkit.Must(t, ms[0].Kill())
	testkit.Must(t, ms[0].Start())
	granted(ms[0])
	f.Lead(ms[1].Addr())
	testkit.Must(t, ms[0].Kill())
	granted(ms[1])
	testkit.Equal(t, log.logged(twoMasters), 0, log.String())
}

// Nor is it for Check and Admit, whose connection leads to the process of before.
func TestAnotherProcessDuringACheckIsNoBalancer(t *testing.T) {
	for what, c := range map[string]struct {
		again string // what the old process says when it is asked again
		want  error
	}{
		"restarted": {canned.HangUp, io.EOF},
		"demoted":   {bulk("run_id:" + strings.Repeat("0", 40) + "\r\nrole:slave\r\n"), node.ErrReplica},
	} {
		var dials, asked atomic.Int32
		old := startFake(t, func(args []string) string {
			if args[0] == "INFO" && asked.Add(1) > 1 {
				return c.again
			}
			return admittedMaster("$-1\r\n")(args)
		})
		next := startEmbedded(t)
		n := open(t, "redis://a", node.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			to := next.Addr()
			if dials.Add(1) == 1 {
				to = old.addr
			}
			return new(net.Dialer).DialContext(ctx, network, to)
		}))
		report, err := operator.Check(t.Context(), n)
		if c.again != canned.HangUp {
			testkit.Must(t, err)
			err = report.Refused
		}
		testkit.Is(t, err, c.want, what+": what Check says")
		dials.Store(0)
		asked.Store(0)
		testkit.Is(t, operator.Admit(t.Context(), n), c.want, what+": what Admit says")
	}
}

// A failover may leave the old master as one for a while: what it grants does not count.
func TestAFailoverIsNoBalancer(t *testing.T) {
	t.Parallel()
	f, log := startFailover(t), &lines{}
	for _, m := range []*redistest.Master{f.old, f.new} {
		attach(t, startReal(t, "--repl-diskless-sync-delay", "0"), m)
	}
	n := open(t, f.url(), log.option(), node.WithConns(2), node.WithFailover(1))
	look := func(key string, at *redistest.Master) {
		t.Helper()
		r := await(t, start(n, key, scripts.Look(), nil))
		testkit.Must(t, r.Err)
		testkit.Equal(t, r.RunID, runID(t, at), "the process")
	}
	look("a", f.old)
	f.Lead(f.new.Addr())
	look("b", f.new)
	testkit.Eventually(t, "no connection to the old one", func() bool { return clients(t, f.old) == 0 })
	look("a", f.new)
	testkit.Equal(t, log.logged(twoMasters)+log.logged("acknowledge nothing"), 0, log.String())
}

// A balancer is dialed at the rate of the backoff, also by a pool that cannot dial once more to find out.
func TestABalancerIsDialedRarely(t *testing.T) {
	const conns = 4
	for what, maxActive := range map[string]int{"any number of connections": 0, "none to spare": conns + 2} {
		most := int32(500)
		if maxActive > 0 { // one dial each time, not up to five
			most = 220
		}
		testkit.Bubble(t, what, func(t *testing.T) {
			p := world.New(t, 3).NewProcess()
			var dials atomic.Int32
			pool := &redis.Pool{MaxActive: maxActive, Wait: true, DialContext: func(ctx context.Context) (redis.Conn, error) {
				i := dials.Add(1)
				if i > 10_000 {
					return nil, errors.New("a storm")
				}
				c, err := p.Dial(ctx, int(i%3))
				return redis.NewConn(c, bound, bound), err
			}}
			n := openPool(t, pool, node.WithConns(conns), node.WithTimeout(timeout))
			defer pool.Close()
			defer inside.Of(n).Subscriptions.Subscribe("c", subscriber{})()
			for range 200 {
				for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
					start(n, key, acquire(key, "o:1"), nil)
				}
				testkit.Pass(100 * time.Millisecond)
			}
			t.Logf("%d dials in 20 s", dials.Load())
			testkit.Check(t, dials.Load() < most, "%d dials in 20 s, want less than %d", dials.Load(), most)
		})
	}
}
