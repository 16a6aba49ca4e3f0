package quorum

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/bubble"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// Two replicas start at the same time on new masters: one marks what the other has looked at. Each node's log and
// state, and Stats, say that it grants nothing as long as that is so, and that it grants from then on.
func TestAFirstStartOfTwoReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		log.setDefault(t)
		masters, all := bubble.Masters(t, 3), make([]*Locker, 2)
		var starting sync.WaitGroup
		for i := range all {
			nodes := bubble.Nodes(t, masters, nil)
			starting.Go(func() { all[i], _ = New(nodes, Majority, withClock(bubble.Clock(t))) })
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
					if n.State != state {
						t.Errorf("%s: node %s is %s", when, n.Name, n.State)
					}
				}
			}
			if n, over := log.count("level=WARN msg=\"quorumlock: node in quarantine"), log.count("its quarantine is over"); n != began || over != ended {
				t.Errorf("%s: %d lines that quarantines began, %d that they are over", when, n, over)
			}
		}
		says("at first", inside.Quarantined, 6, 0)
		time.Sleep(node.DefaultMaxLease - time.Second)
		says("at last", inside.Quarantined, 6, 0)
		time.Sleep(time.Second)
		says("then", inside.Up, 6, 6)
		if lock, err := all[0].TryLock(t.Context(), "a"); err != nil || lock.Unlock(t.Context()) != nil {
			t.Error(err)
		}
	})
}
