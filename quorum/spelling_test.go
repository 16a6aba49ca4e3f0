package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Markers that spell the names in another way accept a client, over live connections and over new ones, and stay as they
// are. A master that forgets gets the list as the others spell it.
func TestMarkersThatSpellNamesOtherwise(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		spelled := []string{"Redis-A.:6379", "[::FFFF:10.0.0.1]:6379", "REDIS.example.:06379"}
		process := func() *Locker {
			var nodes []*node.Node
			p := c.NewProcess()
			for i, name := range spelled {
				n := testkit.Got(p.Node(i, append(c.nodeOptions(), node.WithName(scripts.Canonical(name)))...))(c.t)
				nodes = append(nodes, n)
			}
			return c.locker(nodes)
		}
		l := process()
		c.unlock(c.lock(l, "a"))
		var texts []string
		for i, m := range c.Masters {
			look := inside.Of(l.engine.Nodes[i]).Pipe("").Do(t.Context(), scripts.Look())
			c.must(look.Err)
			marker := scripts.Marker{Process: scripts.Process{Run: look.RunID, MaxLease: node.DefaultMaxLease, Member: spelled[i]},
				Generation: 1, Members: scripts.NewList(spelled...), Next: scripts.NewList()}
			texts = append(texts, marker.String())
			m.Set(scripts.MarkerKey, texts[i])
		}
		text := func(i int) string { return c.ask(l, i, scripts.Look()).Look.Marker }
		for _, l := range []*Locker{l, process()} {
			lock := c.lock(l, "a")
			time.Sleep(3 * DefaultLease)
			testkit.Require(t, lock.Valid(), "%v", lock.Err())
			c.unlock(lock)
			for i := range c.Masters {
				testkit.Equal(t, text(i), texts[i], "the marker")
			}
		}
		flush(c.Masters[2])
		lock := c.lock(l, "a")
		time.Sleep(3 * DefaultLease)
		c.unlock(lock)
		testkit.Check(t, strings.Contains(text(2), strings.Split(texts[0], "\n")[2]), "the master that has forgotten has the marker %q, another %q",
			text(2), texts[0])
	})
}
