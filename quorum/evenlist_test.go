package quorum

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// removesLast makes the masters say that the last of them is being removed. It leaves two masters: an
// even number.
func (c *cluster) removesLast() {
	l := c.process()
	next := scripts.NewList(l.core.nodes[0].Name(), l.core.nodes[1].Name())
	for i, m := range c.masters {
		r := inside.Of(l.core.nodes[i]).Pipe("").Do(c.t.Context(), scripts.Look())
		if r.Err != nil {
			c.t.Fatal(r.Err)
		}
		marker := membership.Read(*r.Reply.Look, 0).Marker()
		marker.Generation++
		marker.Next = next
		m.Set(scripts.MarkerKey, marker.String())
	}
	l.Close()
	c.masters = c.masters[:2]
}

// Masters that let in a Locker over an even list may all forget while the change is under way. The
// Locker then marks them again.
func TestAnEvenListFoundsAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.removesLast()
		l := c.process()
		c.lets(l, "a")
		time.Sleep(node.DefaultMaxLease) // what the look said is old
		for _, m := range c.masters {
			m.Flush()
		}
		c.lets(l, "a")
	})
}
