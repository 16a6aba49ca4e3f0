// Package quorumchaos puts a service that locks under faults of real Redis masters, in the service's own tests,
// and judges what the service did. It needs a container engine or redis-server: without either it skips the test.
//
//	cluster := quorumchaos.Start(t, 3)
//	locker, err := redlock.Open(cluster.URLs())
//	if err != nil {
//		t.Fatal(err)
//	}
//	defer locker.Close()
//	cluster.Freeze(0) // the service goes on with two
//	cluster.Thaw(0)
//
// The service reports to [Cluster.Judge] what it held, read and wrote. [Cluster.Random] draws the faults from a
// seed. docs/chaos-tests.md has a whole test, and which faults the guarantees cover.
package quorumchaos

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/internal/masters"
	"github.com/quorumlock/quorumlock/contrib/quorumchaos/judge"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
)

// Cluster is the masters of one test. Its methods, but URLs and Judge, may fail the test: call them in the
// goroutine of the test that [Start] was given.
type Cluster struct {
	tb       testing.TB
	maxLease time.Duration
	masters  []masters.Master
	urls     []string
	states   []state
	random   string // the calls of Random so far, with their seeds

	mu    sync.Mutex
	judge *judge.Judge // nil until the test asks for it
}

// Start starts n empty masters, in containers if there is a container engine, otherwise as redis-server processes.
// Without either it skips the test. They grant at once, and end with the test. opts are the node options of the
// service, above all its max lease ([node.WithMaxLease]): a master that forgot what it granted grants nothing for
// that long.
func Start(tb testing.TB, n int, opts ...node.Option) *Cluster {
	tb.Helper()
	return start(tb, masters.Open, n, opts)
}

func start(tb testing.TB, open func() (masters.Source, error), n int, opts []node.Option) *Cluster {
	tb.Helper()
	c := newCluster(tb, n)
	source, err := open()
	if errors.Is(err, masters.ErrNone) {
		tb.Skipf("SKIPPED: quorumchaos: %v", err)
	}
	c.must(err)
	tb.Logf("quorumchaos: masters are %s", source.Kind)
	tb.Cleanup(func() { c.must(source.Close()) })
	names, nodes := []string{}, []*node.Node{}
	for range n {
		m, err := source.Start()
		c.must(err)
		tb.Cleanup(func() { c.must(m.Stop()) })
		opened, err := node.Open(m.URL(), append(slices.Clone(opts), node.WithTimeout(20*time.Second))...)
		c.must(err)
		defer opened.Close()
		c.masters, c.urls = append(c.masters, m), append(c.urls, m.URL())
		nodes, names = append(nodes, opened), append(names, opened.Name())
	}
	tb.Logf("quorumchaos: the masters, from 0: %s", strings.Join(names, ", "))
	for _, opened := range nodes { // they are new: no lease is alive
		c.must(operator.AdmitMembers(tb.Context(), opened, names))
		c.maxLease = opened.MaxLease()
	}
	return c
}

func newCluster(tb testing.TB, n int) *Cluster {
	tb.Helper()
	if n < 1 {
		tb.Fatalf("quorumchaos: %d masters: want at least 1", n)
	}
	c := &Cluster{tb: tb, states: slices.Repeat([]state{up}, n)}
	tb.Cleanup(func() { // after the judge's
		if tb.Failed() && c.random != "" {
			tb.Logf("quorumchaos: it played%s", c.random)
		}
	})
	return c
}

// URLs returns the masters' URLs, for redlock.Open. A master keeps its URL.
func (c *Cluster) URLs() []string { return c.urls }

// Judge returns the judge whose timeline has the faults of the Cluster, from the first call of Judge on.
func (c *Cluster) Judge() *judge.Judge {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.judge == nil {
		c.judge = judge.New(c.tb)
	}
	return c.judge
}

func (c *Cluster) note(what string, i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.judge != nil {
		c.judge.Note("%s(%d)", what, i)
	}
}

func (c *Cluster) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatalf("quorumchaos: %v", err)
	}
}
