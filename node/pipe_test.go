package node_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// clients returns the number of connections, without its own.
func clients(t *testing.T, m *redistest.Master) int {
	t.Helper()
	list := testkit.Got(redis.String(m.Do("CLIENT", "LIST", "TYPE", "NORMAL")))(t)
	return strings.Count(list, "\n") - 1
}

func TestAKeyKeepsItsPipe(t *testing.T) {
	m, n := openReal(t, node.WithConns(4))
	mark(t, n)
	pipes := map[*pipeline.Pipe]int{}
	for i := range 400 {
		key := fmt.Sprint("k", i)
		pipes[inside.Of(n).Pipe(key)]++
		first, again := inside.Of(n).Pipe(key), inside.Of(n).Pipe(key)
		testkit.Require(t, first == again, "%s has two pipes", key)
		mustGrant(t, await(t, start(n, key, acquire(key, "o:1"), nil)))
	}
	for _, keys := range pipes {
		testkit.Require(t, len(pipes) == 4 && keys >= 50, "pipes of 400 keys: %v: want them spread over 4", pipes)
	}
	testkit.Equal(t, clients(t, m), 4, "connections")
	one := open(t, m.URL())
	testkit.Check(t, inside.Of(one).Pipe("a") == inside.Of(one).Pipe("b"), "a node of one connection has several pipes")
}

// Many owners ask for few names at once, and release at any moment after that: granted, refused, or before an answer came. Their
// requests share runs, are reordered, left undone by a run and sent again alone; at times the connection dies, or the master forgets
// its scripts. Whatever the order: nothing is left on the master, a grant that is answered stands until its release, and no name has
// two owners. No call fails: it is resent, unless its owner has given it up.
func TestSharedRunsLeaveNothingBehind(t *testing.T) {
	shared, undone, granted, unknown, resent := 0, 0, 0, 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			w := world.New(t, 1)
			m := w.Masters[0]
			var mu sync.Mutex // of what the master's goroutine also uses
			holder := map[string]string{}
			m.Trace = func(_, script string, _ []string, reply any, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
					unknown++
				}
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
			p := w.NewProcess()
			p.Far(0, time.Millisecond/2) // some requests are given up meanwhile
			n := p.Nodes(node.WithName(nodeName), node.WithoutQuarantine(), node.WithTimeout(time.Second))[0]
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
					} else if r := <-asked; r.Err != nil {
						t.Errorf("seed %d: %s: %v", seed, owner, r.Err)
					} else if r.Resent {
						mu.Lock()
						resent++
						mu.Unlock()
					} else if isGranted(r) {
						mu.Lock()
						other := holder[name]
						testkit.Check(t, other == "", "seed %d: %s is granted %s, which %s holds", seed, owner, name, other)
						holder[name] = owner
						granted++
						mu.Unlock()
						time.Sleep(pause)
						mu.Lock()
						delete(holder, name)
						mu.Unlock()
					}
					footprint.Abandon()
					testkit.Is(t, (<-start(n, "key", release(name, owner), footprint)).Err, nil, owner)
				})
			}
			for range 3 {
				time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
				switch seed % 3 {
				case 0:
					w.HangUp(0)
				case 1:
					m.FlushScripts()
				}
			}
			owners.Wait()
			time.Sleep(100 * time.Millisecond) // what was resent
			synctest.Wait()
			for _, key := range m.Keys() {
				testkit.Check(t, strings.HasPrefix(key, scripts.Prefix), "seed %d: %s is left", seed, key)
			}
		})
	}
	t.Logf("%d shared runs, %d requests undone, %d grants, %d unknown scripts, %d requests resent", shared, undone, granted, unknown, resent)
	testkit.Check(t, shared >= 100 && undone >= 100 && granted >= 200 && unknown >= 100 && resent >= 50, "the test shows little")
}
