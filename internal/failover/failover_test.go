package failover

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func started(t *testing.T, groups, replicas int) *Sentinels {
	t.Helper()
	s, err := Start(groups, replicas)
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("SKIPPED, needs redis-server: %v", err)
	}
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, s.Stop()) })
	return s
}

// await is testkit.Eventually for a busy machine, on which elections fail.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Require(t, poll.Until(time.Minute, holds), "not within a minute: %s", what)
}

// promoted waits until the Sentinels have another primary.
func promoted(t *testing.T, g *Group, old *Server) (now *Server) {
	t.Helper()
	await(t, "a promotion", func() bool {
		primary, err := g.Primary()
		now = primary
		return err == nil && primary != old
	})
	return now
}

func get(t *testing.T, s *Server, want string) {
	t.Helper()
	got := testkit.Got(s.Do("GET", "k"))(t)
	text, _ := got.([]byte)
	testkit.Check(t, string(text) == want, "k is %q, want %q", text, want)
}

// A silent link stops the replica's data, not the Sentinels: nobody is promoted.
func TestSilentLink(t *testing.T) {
	t.Parallel()
	for range 4 {
		if silence(t, started(t, 1, 1).Groups[0]) {
			return
		}
		t.Log("the Sentinels chose another primary, as they do on a machine that stands still")
	}
	t.Fatal("each silent link has made the Sentinels choose another primary")
}

// silence plays a silent link. It returns false if the Sentinels have chosen another primary.
func silence(t *testing.T, g *Group) bool {
	t.Helper()
	primary, replica := g.Servers[0], g.Servers[1]
	primary.Silence(replica)
	testkit.Got(primary.Do("SET", "k", "v"))(t)
	time.Sleep(3 * downAfter) // in which a Sentinel would notice
	get(t, replica, "")
	stays := func() bool {
		now, err := g.Primary()
		return err != nil || now == primary
	}
	if !stays() {
		return false
	}
	primary.Release(replica)
	await(t, "what was held back", func() bool {
		got, err := replica.Do("GET", "k")
		return err == nil && got != nil || !stays()
	})
	return stays()
}

// Clients ask the Sentinels: they lock at the next primary, once the old one follows it, though one Sentinel stands still
// then and another is dead.
func TestURLs(t *testing.T) {
	t.Parallel()
	s := started(t, 1, 1)
	locker, err := redlock.Open(s.URLs(), quorum.WithNodeOptions(node.WithMaxLease(2*time.Second), node.WithTimeout(time.Second)))
	testkit.Must(t, err)
	defer locker.Close()
	ctx := testkit.Within(t, time.Minute)
	lock := testkit.Got(locker.Lock(ctx, "invoice:42"))(t)
	g, old := s.Groups[0], s.Groups[0].Servers[0]
	testkit.Must(t, old.Kill())
	promoted(t, g, old)
	_, err = locker.TryLock(ctx, "invoice:42")
	testkit.Check(t, err != nil, "without its replica the next primary grants")
	<-lock.Context().Done() // it would go on if the old primary came back before its deadline
	testkit.Must(t, old.Start())
	await(t, "the return as a replica", g.Whole)
	testkit.Must(t, errors.Join(s.Watchers[0].Freeze(), s.Watchers[1].Kill()))
	next := testkit.Got(locker.Lock(ctx, "invoice:42"))(t)
	testkit.Check(t, !lock.Valid() && next.Token() > lock.Token(), "the lock before is valid: %v, token %d, then %d", lock.Valid(), lock.Token(), next.Token())
	testkit.Must(t, next.Unlock(ctx))
}

// Sentinels of two deployments that call their masters by one name lead a client to both. Who asks them hears so, and of one
// that is dead.
func TestSentinelsOfTwoDeployments(t *testing.T) {
	t.Parallel()
	one, other := started(t, 1, 1), started(t, 1, 1)
	opened := func(sentinels ...*redistest.Master) *node.Node {
		var hosts []string
		for _, s := range sentinels {
			hosts = append(hosts, s.Addr())
		}
		return testkit.Opened(node.Open("redis+sentinel://" + strings.Join(hosts, ",") + "/master-0?failover=1"))(t)
	}
	both := opened(one.Watchers[0], one.Watchers[1], other.Watchers[0])
	notes, err := inside.Of(both).Server.AskSentinels(t.Context())
	testkit.Is(t, err, node.ErrInvalid, "two deployments")
	testkit.Equal(t, len(notes), 0, "notes")
	for s, g := range map[*redistest.Master]*Group{one.Watchers[0]: one.Groups[0], other.Watchers[0]: other.Groups[0]} {
		names := fmt.Sprintf("Sentinel %s names %s", s.Addr(), net.JoinHostPort(g.Servers[0].known()))
		testkit.Check(t, strings.Contains(err.Error(), names), "%v, want %s", err, names)
	}
	testkit.Must(t, one.Watchers[2].Kill())
	notes = testkit.Got(inside.Of(opened(one.Watchers...)).Server.AskSentinels(t.Context()))(t)
	testkit.Check(t, len(notes) == 1 && strings.HasPrefix(notes[0], "Sentinel "+one.Watchers[2].Addr()+": "), "%q", notes)
}
