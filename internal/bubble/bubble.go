// Package bubble connects nodes to masters in memory, for tests in a testing/synctest bubble: only
// waiting takes time there.
package bubble

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// Masters starts n masters, which stop when the test ends.
func Masters(t testing.TB, n int) []*fakeredis.Master {
	masters := make([]*fakeredis.Master, n)
	for i := range masters {
		masters[i] = fakeredis.New(time.Now, uint64(i+1))
	}
	t.Cleanup(func() {
		for _, m := range masters {
			m.Stop()
		}
	})
	return masters
}

// Nodes opens a node for each master ("master 0" and so on), over connections of their own, and
// closes them when the test ends. wrap returns the client's end of a connection to a master; nil
// leaves it as it is.
func Nodes(t testing.TB, masters []*fakeredis.Master, wrap func(master int, c net.Conn) net.Conn,
	opts ...node.Option) []*node.Node {
	t.Helper()
	opts = append(opts, inside.Option[node.Option](func(s *inside.Settings) { s.OneProcess = true }))
	var nodes []*node.Node
	for i, m := range masters {
		pool := &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
			ours, theirs := net.Pipe()
			go m.Serve(theirs)
			if wrap != nil {
				ours = wrap(i, ours)
			}
			return redis.NewConn(ours, 5*time.Second, 5*time.Second), nil
		}}
		n, err := node.New(pool, append([]node.Option{node.WithName(fmt.Sprint("master ", i))}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(); pool.Close() })
		nodes = append(nodes, n)
	}
	return nodes
}

// Clock returns a clock that keeps the bubble's time until the test ends. Make it before the
// locker, whose timers it then outlives.
func Clock(t testing.TB) *fakeclock.Clock {
	ticking := fakeclock.New()
	ticking.SetRate(1)
	t.Cleanup(func() { ticking.SetRate(0) })
	return ticking
}
