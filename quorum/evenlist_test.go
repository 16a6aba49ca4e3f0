package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// removesLast makes the masters say that the last of them is being removed. It leaves two masters: an
// even number.
func (c *cluster) removesLast() {
	c.mark(func(m *scripts.Marker, two *scripts.List) { m.Next = two })
	c.masters = c.masters[:2]
}

// mark changes the markers of all masters; two is the list of the first two.
func (c *cluster) mark(change func(m *scripts.Marker, two *scripts.List)) {
	l := c.process()
	two := scripts.NewList(l.core.Nodes[0].Name(), l.core.Nodes[1].Name())
	for i, m := range c.masters {
		r := inside.Of(l.core.Nodes[i]).Pipe("").Do(c.t.Context(), scripts.Look())
		if r.Err != nil {
			c.t.Fatal(r.Err)
		}
		marker := membership.Read(*r.Reply.Look, 0).Marker()
		marker.Generation, marker.Claimed, marker.Admitted = marker.Generation+1, false, 0
		change(&marker, two)
		m.Set(scripts.MarkerKey, marker.String())
	}
	l.Close()
}

// restart restarts all masters with their data.
func (c *cluster) restart() {
	for _, m := range c.masters {
		m.Crash(fakeredis.Everything)
		m.Start()
	}
}

// Masters that accept a Locker over an even list may all forget while the change is under way. The
// Locker then marks them again.
func TestAnEvenListFoundsAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.removesLast()
		l := c.process()
		c.lets(l, "a")
		time.Sleep(node.DefaultMaxLease) // what the look said is old
		flush(c.masters...)
		c.lets(l, "a")
	})
}

// All masters of an even list restart with their data: a Locker that is made then has them mark each
// other again, and waits for their quarantine.
func TestAnEvenListThatRestartsIsOpened(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		quarantine := c.quarantined()
		c.mark(func(m *scripts.Marker, two *scripts.List) { m.Members = two })
		c.masters = c.masters[:2]
		c.restart()
		first := c.process()
		time.Sleep(quarantine / 2)
		if took := c.lets(c.process(), "a"); took < quarantine/2-100*time.Millisecond || took > quarantine/2+100*time.Millisecond {
			t.Errorf("it waits %v", took)
		}
		c.lets(first, "a")
	})
}

// All masters restart with their data between announce and commit: a client of the new list is told
// whose clients mark them, and then locks.
func TestAMasterThatRestartsInTheMidstOfAChangeSaysWhoMarksIt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.quarantined()
		all := c.masters
		c.removesLast()
		c.masters = all
		c.restart()
		c.masters = all[:2]
		_, err := c.process().TryLock(t.Context(), "a")
		const want = "waits for a client with {master0, master1, master2}: lock any name with that list"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want %q", err, want)
		}
		c.masters = all
		c.lets(c.process(), "a")
	})
}
