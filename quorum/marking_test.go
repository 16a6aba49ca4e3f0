package quorum

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
)

// The marker of a master is gone again each time that it was marked: the attempt counts the master as
// failed, and sends it no more than two requests for a grant.
func TestAMarkerThatChangesEachTime(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		last, acquires := c.Masters[2], 0
		flushing := false
		trace := last.Trace
		last.Trace = func(client, script string, args []string, reply any, err error) {
			trace(client, script, args, reply, err)
			if !flushing {
				return
			}
			switch script {
			case "acquire":
				acquires++
			case "mark": // its data goes before the next request arrives
				arrives := c.jam()
				go func() {
					last.Flush() // once the script is over
					arrives()
				}()
			}
		}
		l := c.process()
		flushing = true
		last.Flush()
		c.command(0, "HSET", "a", "another:1", "1")
		c.command(0, "PEXPIRE", "a", "60000")
		_, err := l.TryLock(t.Context(), "a") // it needs this master's grant
		synctest.Wait()
		testkit.Equal(t, acquires, 2*int(l.Stats().Attempts["held"]), "requests for a grant")
		wantError(t, err, engine.ErrMarker)
		flushing = false
	})
}

// Two replicas start at the same time on new masters: one marks what the other has looked at. Each node's log and
// state, and Stats, say that it grants nothing as long as that is so, and that it grants from then on.
func TestAFirstStartOfTwoReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		log.setDefault(t)
		w, all := world.New(t, 3), make([]*Locker, 2)
		var starting sync.WaitGroup
		for i := range all {
			nodes := w.NewProcess().Nodes()
			starting.Go(func() { all[i], _ = New(nodes, Majority, withClock(w.Clock)) })
		}
		starting.Wait()
		for _, l := range all {
			defer l.Close()
		}
		says := func(when, state string, began, ended int) {
			t.Helper()
			synctest.Wait()
			for _, l := range all {
				for _, n := range l.Stats().Nodes {
					testkit.Check(t, n.State == state, "%s: node %s is %s", when, n.Name, n.State)
				}
			}
			testkit.Equal(t, log.count("level=WARN msg=\"quorumlock: node in quarantine"), began, when+": lines that quarantines began")
			testkit.Equal(t, log.count("its quarantine is over"), ended, when+": lines that they are over")
		}
		says("at first", inside.Quarantined, 6, 0)
		time.Sleep(node.DefaultMaxLease - time.Second)
		says("at last", inside.Quarantined, 6, 0)
		time.Sleep(time.Second)
		says("then", inside.Up, 6, 6)
		lock, err := all[0].TryLock(t.Context(), "a")
		testkit.Check(t, err == nil && lock.Unlock(t.Context()) == nil, "%v", err)
	})
}
