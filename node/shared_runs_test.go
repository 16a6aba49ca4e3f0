package node_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/bubble"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Many owners ask for few names at once, and release at any moment after that: granted, refused, or before an answer came. Their
// requests share runs, are reordered, left undone by a run and sent again alone; the connection dies at times. Whatever the order:
// nothing is left on the master, a grant that is answered stands until its release, and no name has two owners.
func TestSharedRunsLeaveNothingBehind(t *testing.T) {
	shared, undone, granted := 0, 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			m := bubble.Masters(t, 1)[0]
			deaths := 0
			if seed%3 == 0 {
				deaths = 3
			}
			var mu sync.Mutex // of what the master's goroutine also uses
			holder := map[string]string{}
			m.Trace = func(_, script string, _ []string, reply any, _ error) {
				mu.Lock()
				defer mu.Unlock()
				switch script {
				case "acquires":
					shared++
					if replies, some := reply.([]any); some {
						undone += len(slices.DeleteFunc(slices.Clone(replies), func(r any) bool { return r != int64(0) }))
					}
				case "releases":
					shared++
				}
			}
			var conns []net.Conn
			n := bubble.Nodes(t, []*fakeredis.Master{m}, func(_ int, c net.Conn) net.Conn {
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, c)
				return farConn{c}
			}, node.WithName(nodeName), node.WithoutQuarantine(), node.WithTimeout(time.Second))[0]
			mark(t, n)

			names := []string{"a", "b", "c", "d"}
			var owners sync.WaitGroup
			for i := range 120 {
				name, owner := names[rng.IntN(len(names))], fmt.Sprint("o:", i)
				early, pause, starts := rng.IntN(3) == 0, time.Duration(rng.IntN(3))*time.Millisecond, time.Duration(rng.IntN(8))*time.Millisecond
				owners.Go(func() {
					time.Sleep(starts)
					footprint := new(pipeline.Footprint)
					asked := start(n, "key", acquire(name, owner), footprint)
					if early {
						time.Sleep(pause)
					} else if r := <-asked; isGranted(r) && !r.Resent {
						mu.Lock()
						if other := holder[name]; other != "" {
							t.Errorf("seed %d: %s is granted %s, which %s holds", seed, owner, name, other)
						}
						holder[name] = owner
						granted++
						mu.Unlock()
						time.Sleep(pause)
						mu.Lock()
						delete(holder, name)
						mu.Unlock()
					}
					footprint.Abandon()
					<-start(n, "key", release(name, owner), footprint)
				})
			}
			for range deaths {
				time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
				mu.Lock()
				for _, c := range conns {
					c.Close()
				}
				conns = nil
				mu.Unlock()
			}
			owners.Wait()
			time.Sleep(100 * time.Millisecond) // what was resent
			synctest.Wait()
			for _, key := range m.Keys() {
				if !strings.HasPrefix(key, scripts.Prefix) {
					t.Errorf("seed %d: %s is left", seed, key)
				}
			}
		})
	}
	if shared < 100 || undone < 100 || granted < 200 {
		t.Errorf("%d shared runs, %d requests undone, %d grants: the test shows little", shared, undone, granted)
	}
	t.Logf("%d shared runs, %d requests undone, %d grants", shared, undone, granted)
}

// farConn is a connection on which replies take a while: some requests are given up meanwhile.
type farConn struct{ net.Conn }

func (c farConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(time.Millisecond)
	return n, err
}
