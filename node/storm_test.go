package node_test

import (
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// slowDown leaves a master a twentieth of a processor, until it is called.
func slowDown(t *testing.T, m *redistest.Master) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			testkit.Must(t, m.Freeze())
			<-time.After(95 * time.Millisecond)
			testkit.Must(t, m.Thaw())
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() { close(over); <-done }
}

// A master stands still, and is slow when it comes back. All its clients return, at most 10 s after as many
// plain connections.
func TestAllClientsReturnToASlowMaster(t *testing.T) {
	const clients = 300
	m := startReal(t)
	nodes := make([]*node.Node, clients)
	each := func(do func(i int)) time.Duration {
		began := time.Now()
		var running sync.WaitGroup
		for i := range clients {
			running.Go(func() { do(i) })
		}
		running.Wait()
		return time.Since(began)
	}
	call := func(i int) bool { return (<-start(nodes[i], "key", scripts.Look(), nil)).Err == nil }
	each(func(i int) {
		n, err := node.Open(m.URL(), node.WithName(nodeName), node.WithoutQuarantine())
		if err != nil {
			t.Error(err)
		}
		nodes[i] = n
	})
	defer each(func(i int) { nodes[i].Close() })
	back := func() time.Duration {
		return each(func(i int) {
			for deadline := time.Now().Add(time.Minute); !call(i); <-time.After(100 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("not back within a minute")
					return
				}
			}
		})
	}
	back()

	stop := slowDown(t, m)
	plain := each(func(int) {
		c, err := redis.Dial("tcp", m.Addr())
		if err == nil {
			_, err = c.Do("PING")
			c.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	stop()

	testkit.Must(t, m.Freeze())
	frozen := time.Now()
	for time.Since(frozen) < 4*time.Second {
		each(func(i int) { call(i) })
		<-time.After(100 * time.Millisecond)
	}
	stop = slowDown(t, m)
	took := back()
	stop()
	t.Logf("%d clients are back after %v, as many plain connections after %v", clients, took, plain)
	if took > plain+10*time.Second {
		t.Errorf("%d clients are back after %v, as many plain connections after %v", clients, took, plain)
	}
}
