package node_test

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

const twoMasters = "one address leads to two masters"

// balance starts masters behind one address, to which new connections go in turn.
func balance(t *testing.T, n int) (f *forward.Forward, ms []*redistest.Master) {
	t.Helper()
	ms = testkit.Real(t, n).Masters
	f, err := forward.New(ms[0].Addr())
	testkit.Must(t, err)
	t.Cleanup(f.Close)
	f.Lead(addressesOf(ms)...)
	return f, ms
}

func addressesOf(ms []*redistest.Master) (all []string) {
	for _, m := range ms {
		all = append(all, m.Addr())
	}
	return all
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
		for range 5 {
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
		report := check(t, n)
		testkit.Check(t, report.Refused != nil && strings.Contains(report.Refused.Error(), twoMasters), "checked: %v", report.Refused)
		for _, m := range ms {
			testkit.Equal(t, len(keys(t, m)), 0, "locks")
		}
		testkit.Equal(t, log.logged("node refused", twoMasters), 1, log.text())

		f.Lead(ms[1].Addr())
		testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
		testkit.Equal(t, check(t, n).Refused, nil, "refused by Check")
	}
}

// A balancer that leads to one master several times in a row is found out by the next connection that leads elsewhere:
// the one of messages, or one more for calls. All connections are ended, although the first master is well. Then chance
// does not end the suspicion: among many connections each has to lead to one master.
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
			f.Lead(b, b, a, a, a, a, a)
			next(n)
			testkit.Eventually(t, "logged", func() bool { return log.logged("node refused", twoMasters) == 1 })
			for range 5 {
				refusesTwo(t, n)
			}
			testkit.Eventually(t, "no connection of the lock's", func() bool {
				return n.State() == inside.Refused && clients(t, ms[0]) == 0
			})

			f.Lead(b)
			testkit.Eventually(t, "granted by the other", func() bool {
				r := doAt(t, n, "a", acquire("k", "o:1"))
				return isGranted(r) && r.RunID == runID(t, ms[1])
			})
		})
	}
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
	testkit.Equal(t, log.logged(twoMasters), 0, log.text())
}

// A pool without a connection to spare is used as it is.
func TestAPoolThatCannotDialAgain(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	pool := poolOf(m.Addr())
	pool.MaxActive, pool.Wait = 1, true
	n := openPool(t, pool, node.WithTimeout(timeout))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
}
