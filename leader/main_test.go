package leader_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	world.OneProcessor()
	goleak.VerifyTestMain(m)
}

const (
	election = "scheduler"
	lease    = 3 * time.Second
)

// cluster is three masters in memory and the processes that use them, in a synctest bubble: only
// waiting takes time there.
type cluster struct {
	*testing.T
	world *world.World
}

// process is a locker with connections of its own.
type process struct {
	*quorum.Locker
	cut  atomic.Bool // while set, nothing that it sends arrives
	sent atomic.Int64
}

// inCluster runs a test in a bubble, with a new cluster.
func inCluster(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newCluster(t)) })
}

func newCluster(t *testing.T) *cluster { return &cluster{t, world.New(t, 3)} }

// process starts a process. Its nodes wait in no quarantine, unless opts say otherwise.
func (c *cluster) process(opts ...node.Option) *process {
	c.Helper()
	return c.labelled("", opts...)
}

// labelled is process, with a label.
func (c *cluster) labelled(label string, opts ...node.Option) *process {
	c.Helper()
	if opts == nil {
		opts = append(opts, node.WithoutQuarantine())
	}
	p, in := &process{}, c.world.NewProcess()
	in.Sends = func(int, []byte) bool { p.sent.Add(1); return !p.cut.Load() }
	nodes := in.Nodes(append(opts, node.WithTimeout(500*time.Millisecond))...)
	l, err := quorum.New(nodes, quorum.Majority, quorumtest.WithClock(in.Clock),
		quorumtest.WithRand(rand.NewPCG(1, 2)), quorum.WithLease(lease), quorum.WithLabel(label))
	testkit.Must(c, err)
	c.Cleanup(func() { l.Close() })
	p.Locker = l
	synctest.Wait()
	return p
}

func (c *cluster) candidate(l *quorum.Locker, opts ...leader.Option) *leader.Candidate {
	c.Helper()
	made, err := leader.New(l, election, opts...)
	testkit.Must(c, err)
	return made
}

// campaign campaigns within two leases.
func (c *cluster) campaign(by *leader.Candidate) *leader.Term {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	late := time.AfterFunc(2*lease, cancel)
	t, err := by.Campaign(ctx)
	if err != nil {
		cancel()
		c.Fatalf("no leader within two leases: %v", err)
	}
	late.Stop()
	c.Cleanup(cancel)
	return t
}

// resign resigns, and lets the release reach all masters.
func (c *cluster) resign(t *leader.Term) {
	c.Helper()
	testkit.Must(c, t.Resign(context.Background()))
	synctest.Wait()
}

// wantLeader fails the test unless the masters say that the candidate with that ID leads; "" is nobody.
func (c *cluster) wantLeader(asked *leader.Candidate, id string) {
	c.Helper()
	got, err := asked.Leader(c.Context())
	testkit.Check(c, err == nil && got.ID == id, "%q leads, %v, want %q", got.ID, err, id)
}

// wantErr fails the test unless err wraps all the targets.
func (c *cluster) wantErr(err error, targets ...error) {
	c.Helper()
	for _, target := range targets {
		testkit.Check(c, errors.Is(err, target), "error %v: does not wrap %q", err, target)
	}
}
