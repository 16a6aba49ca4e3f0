package quorum

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/node"
)

// BenchmarkLockUnlock is a pair of calls without hooks, on three masters in memory. To compare two
// trees, build a test binary of each and run them by turns.
func BenchmarkLockUnlock(b *testing.B) {
	var nodes []*node.Node
	for i := range 3 {
		m := fakeredis.New(time.Now, uint64(i+1))
		defer m.Stop()
		pool := &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
			ours, theirs := net.Pipe()
			go m.Serve(theirs)
			return redis.NewConn(ours, 5*time.Second, 5*time.Second), nil
		}}
		defer pool.Close()
		n, err := node.New(pool, node.WithName(fmt.Sprint("master", i)), node.WithoutQuarantine(), node.WithTimeout(time.Minute))
		if err != nil {
			b.Fatal(err)
		}
		defer n.Close()
		nodes = append(nodes, n)
	}
	l, err := New(nodes, Majority)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.ReportAllocs()
	for b.Loop() {
		lock, err := l.Lock(context.Background(), "a")
		if err != nil {
			b.Fatal(err)
		}
		if err := lock.Unlock(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
