package leader_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/scene"
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

const election = "scheduler"

// cluster is three masters in memory and the processes that use them, in a synctest bubble: only
// waiting takes time there.
type cluster struct {
	*testing.T
	world *world.World
}

// inCluster runs a test in a bubble, with a new cluster.
func inCluster(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newCluster(t)) })
}

func newCluster(t *testing.T) *cluster { return &cluster{t, world.New(t, 3)} }

// process starts a process: a locker with connections of its own. Its nodes wait in no quarantine.
func (c *cluster) process(opts ...quorum.Option) *quorum.Locker {
	c.Helper()
	in := c.world.NewProcess()
	nodes := in.Nodes(node.WithoutQuarantine(), node.WithTimeout(500*time.Millisecond))
	opts = append(opts, quorumtest.WithClock(in.Clock), quorumtest.WithRand(rand.NewPCG(1, 2)), quorum.WithLease(3*time.Second))
	l := testkit.Opened(quorum.New(nodes, quorum.Majority, opts...))(c)
	synctest.Wait()
	return l
}

func (c *cluster) candidate(l *quorum.Locker) *leader.Candidate {
	c.Helper()
	return testkit.Got(leader.New(l, election))(c)
}

func (c *cluster) campaign(by *leader.Candidate) *leader.Term {
	c.Helper()
	return testkit.Got(by.Campaign(c.Context()))(c)
}

// resign resigns, and lets the release reach all masters.
func (c *cluster) resign(t *leader.Term) {
	c.Helper()
	testkit.Must(c, t.Resign(c.Context()))
	synctest.Wait()
}

// wantLeader fails the test unless the masters say that the candidate with that ID leads; "" is nobody.
func (c *cluster) wantLeader(asked *leader.Candidate, id string) {
	c.Helper()
	got, err := asked.Leader(c.Context())
	testkit.Check(c, err == nil && got.ID == id, "%q leads, %v, want %q", got.ID, err, id)
}

// Package scene says how one reads and writes the scenes in testdata.
func TestScenes(t *testing.T) { scene.Run(t, "testdata/*.txt", nil) }
