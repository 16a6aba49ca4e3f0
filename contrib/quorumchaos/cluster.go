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
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/internal/masters"
	"github.com/quorumlock/quorumlock/contrib/quorumchaos/judge"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

// Setup is what a Cluster is made of. The zero value is what [Start] uses.
type Setup struct {
	// Node is the options of the service's nodes, above all its max lease: a master that forgot grants nothing for
	// that long.
	Node []node.Option
	// Args are arguments of redis-server, one list for each master; with more masters than lists they begin again.
	// By default a master has an append-only file that is written but not synced: it survives Kill. With an empty
	// list it keeps nothing.
	Args [][]string
	// Replicas is how many replicas each master has. Three Sentinels promote one of them, and URLs has the
	// Sentinels' addresses. All of these are processes.
	Replicas int
	// Clocks gives each master a clock that [Cluster.Step] sets: they are processes, on Linux with a C compiler.
	Clocks bool
	// Strangers leaves the masters blank: the service founds the deployment, and waits for its first
	// quarantine.
	Strangers bool
}

// Cluster is the masters of one test. Its methods, but URLs and Judge, may fail the test: call them in the
// goroutine of the test that [Start] was given.
type Cluster struct {
	embedded
	*deployment
	group group // of clients
	urls  []string
}

type embedded = inside.Embedded[*backstage.Cluster]

// deployment is what all groups of clients share.
type deployment struct {
	tb       testing.TB
	maxLease time.Duration
	names    []string
	masters  []masters.Master
	replicas int // of each
	states   []state
	notes    *backstage.Notes
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
	return start(tb, "", n, Setup{Node: opts})
}

func start(tb testing.TB, kind string, n int, s Setup) *Cluster {
	tb.Helper()
	backend, err := Open(kind)
	if errors.Is(err, backstage.ErrNone) {
		tb.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := backend.Close(); err != nil {
			tb.Error(err)
		}
	})
	return backend.Start(tb, n, s)
}

// Backend starts masters for the Clusters of several tests, so that they share an image and a network.
type Backend struct {
	embeddedBackend
	source masters.Source
}

type embeddedBackend = inside.Embedded[*backstage.Backend]

// Open returns a Backend whose masters are "containers" or "processes". With "" it takes containers if there is a
// container engine, otherwise processes. The caller closes it.
func Open(kind string) (*Backend, error) {
	source, err := masters.Open(kind)
	if err != nil {
		return nil, fmt.Errorf("quorumchaos: %w", err)
	}
	return &Backend{inside.Embed(&source.Backend), source}, nil
}

// Close ends the masters of all its Clusters, and removes what they left.
func (b *Backend) Close() error { return b.source.Close() }

// Start starts n empty masters, which end with the test. It skips the test if this machine lacks what the Setup
// needs.
func (b *Backend) Start(tb testing.TB, n int, s Setup) *Cluster {
	tb.Helper()
	c, source := newCluster(tb, n), b.source
	var err error
	if s.Clocks {
		if source, err = masters.Clocks(); err == nil {
			tb.Cleanup(func() { c.must(source.Close()) })
		}
		c.need(err)
	}
	tb.Logf("quorumchaos: masters are %s", source.Kind)
	if s.Replicas > 0 {
		c.masters, c.urls, err = masters.WithReplicas(n, s.Replicas, argsOf(s.Args, 0)...)
		c.need(err)
		tb.Cleanup(func() { c.must(c.masters[0].Stop()) })
	} else {
		c.startEach(source, s.Args)
	}
	c.replicas = s.Replicas
	for i, url := range c.urls {
		c.urls[i] = c.named(url, i)
	}
	c.lendInside(source)
	tb.Logf("quorumchaos: the masters, from 0: %s", strings.Join(c.urls, ", "))
	c.admit(s)
	return c
}

func (c *Cluster) startEach(source masters.Source, args [][]string) {
	c.tb.Helper()
	errs := make([]error, len(c.states))
	c.masters = make([]masters.Master, len(c.states))
	c.tb.Cleanup(func() {
		c.must(c.each(indices(c.masters), func(i int) error {
			if errs[i] != nil {
				return nil
			}
			return c.masters[i].Stop()
		}))
	})
	c.must(c.each(indices(c.masters), func(i int) error {
		c.masters[i], errs[i] = source.Start(argsOf(args, i)...)
		return errs[i]
	}))
	for _, m := range c.masters {
		c.urls = append(c.urls, "redis://"+m.Addr())
	}
}

// disk survives a crash of the server.
var disk = []string{"--appendonly", "yes", "--appendfsync", "no"}

func argsOf(args [][]string, i int) []string {
	if len(args) == 0 {
		return disk
	}
	return append([]string{"--repl-diskless-sync-delay", "0"}, args[i%len(args)]...)
}

// admit asserts that no earlier lock on the masters is alive, and gives them their list, unless they are to be strangers.
func (c *Cluster) admit(s Setup) {
	c.tb.Helper()
	leases := make([]time.Duration, len(c.urls))
	c.must(c.each(indices(c.urls), func(i int) error {
		n, err := node.Open(c.urls[i], append(slices.Clone(s.Node), node.WithTimeout(20*time.Second))...)
		if err != nil {
			return err
		}
		if leases[i] = n.MaxLease(); s.Strangers {
			return n.Close()
		}
		return errors.Join(operator.AdmitMembers(c.tb.Context(), n, c.names), n.Close())
	}))
	c.maxLease = leases[0]
}

func newCluster(tb testing.TB, n int) *Cluster {
	tb.Helper()
	if n < 1 {
		tb.Fatalf("quorumchaos: %d masters: want at least 1", n)
	}
	c := &Cluster{deployment: &deployment{tb: tb, states: slices.Repeat([]state{up}, n), notes: backstage.NewNotes(tb)}}
	for i := range n {
		c.names = append(c.names, fmt.Sprintf("master-%d", i))
	}
	c.lend(backstage.Cluster{})
	tb.Cleanup(func() { // after the judge's
		if tb.Failed() && c.random != "" {
			tb.Logf("quorumchaos: it played%s", c.random)
		}
	})
	return c
}

// named gives a URL its master's name: one master has several URLs.
func (c *Cluster) named(url string, i int) string {
	url, _, _ = strings.Cut(url, "?")
	if url += "?name=" + c.names[i]; c.replicas > 0 {
		url += fmt.Sprintf("&failover=%d", c.replicas)
	}
	return url
}

// URLs returns the masters' URLs, for redlock.Open. A master keeps its URL.
func (c *Cluster) URLs() []string { return slices.Clone(c.urls) }

// Judge returns the judge whose timeline has the faults of the Cluster, from the first call of Judge on.
func (c *Cluster) Judge() *judge.Judge {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deployment.judge == nil {
		c.deployment.judge = judge.New(c.tb)
	}
	return c.deployment.judge
}

func (c *Cluster) each(masters []int, do func(i int) error) error {
	errs := make([]error, len(masters))
	var doing sync.WaitGroup
	for k, i := range masters {
		doing.Go(func() { errs[k] = do(i) })
	}
	doing.Wait()
	return errors.Join(errs...)
}

func indices[T any](all []T) (each []int) {
	for i := range all {
		each = append(each, i)
	}
	return each
}

func (c *Cluster) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatalf("quorumchaos: %v", err)
	}
}

// need skips the test if this machine lacks what it needs.
func (c *Cluster) need(err error) {
	c.tb.Helper()
	if errors.Is(err, backstage.ErrNone) {
		c.tb.Skipf("SKIPPED: quorumchaos: %v", err)
	}
	c.must(err)
}
