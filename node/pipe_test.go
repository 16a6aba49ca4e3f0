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
	"github.com/quorumlock/quorumlock/scripts/operators"
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

// asApp starts a server with a user that may use keys matching "app:*", and opens a node for it, which
// it marks.
func asApp(t *testing.T, opts ...node.Option) (*redistest.Master, *node.Node) {
	t.Helper()
	m := startReal(t)
	testkit.Do(t, m, redistest.SetUser("app", "on", ">right", "~quorumlock:*", "~app:*", "&*", "+@all")...)
	n := open(t, "redis://app:right@"+m.Addr(), opts...)
	mark(t, n)
	return m, n
}

// mustSay wants an error reply in time, from a node that is not down.
func mustSay(t *testing.T, r pipeline.Result, words string) {
	t.Helper()
	if err := fmt.Sprint(r.Err); !strings.Contains(err, words) || strings.Contains(err, node.ErrDown.Error()) {
		t.Fatalf("answered %v, %q: want %s", r.Reply, err, words)
	}
}

func TestARefusedReleaseIsCarriedOutOnceAllowed(t *testing.T) {
	for what, refuse := range map[string]struct {
		begin, end []any
		code       string
	}{
		"the key is forbidden":                     {[]any{"ACL", "SETUSER", "app", "resetkeys", "~quorumlock:*"}, []any{"ACL", "SETUSER", "app", "~app:*"}, "NOPERM"},
		"too few replicas":                         {[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}, "NOREPLICAS"},
		"a command inside the script is forbidden": {[]any{"ACL", "SETUSER", "app", "-hdel"}, []any{"ACL", "SETUSER", "app", "+hdel"}, "script"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			log := &lines{}
			m, n := asApp(t, log.option())
			var footprint pipeline.Footprint
			mustGrant(t, await(t, start(n, "key", acquire("app:k", "o:1"), &footprint)))
			testkit.Do(t, m, refuse.begin...)
			footprint.Abandon()
			mustSay(t, await(t, start(n, "key", release("app:k", "o:1"), &footprint)), refuse.code)
			testkit.Must(t, do(t, n, inspectMarker).Err)
			testkit.Require(t, exists(t, m, "app:k"), "released")
			testkit.Eventually(t, "the refusal logged", func() bool {
				return log.logged("level=WARN", "release refused, tried again slowly", "app:k", "owner=o:1", refuse.code) == 1
			})
			testkit.Do(t, m, refuse.end...)
			testkit.Eventually(t, "the key gone", func() bool { return len(keys(t, m)) == 0 })
			mustGrant(t, do(t, n, acquire("app:k", "o:2")))
		})
	}
}

var inspectMarker = operators.Inspect(scripts.NewName(scripts.Prefix + "none"))

// Some refusals prove that nothing was carried out, others do not.
func TestRefusalsThatProveNothingDone(t *testing.T) {
	t.Parallel()
	m, n := asApp(t)
	mustGrant(t, do(t, n, acquire("app:other", "o:2")))
	testkit.Do(t, m, "SET", "app:text", "x")
	testkit.Do(t, m, "SET", scripts.NewName("app:count").Counter(), "x")
	testkit.Do(t, m, "HSET", scripts.NewName("app:hash").Counter(), "x", "1")
	none := []any{"PING"}
	plain := redistest.Has(redistest.PlainScriptErrors) // else an error within a script proves nothing
	for what, c := range map[string]struct {
		begin, end []any
		name       string
		void       bool
	}{
		"a key forbidden":       {none, none, "other:bad", true},
		"scripts forbidden":     {[]any{"ACL", "SETUSER", "app", "-evalsha"}, []any{"ACL", "SETUSER", "app", "+evalsha"}, "app:k", true},
		"PEXPIRE forbidden":     {[]any{"ACL", "SETUSER", "app", "-pexpire"}, []any{"ACL", "SETUSER", "app", "+pexpire"}, "app:k", false},
		"HSET forbidden":        {[]any{"ACL", "SETUSER", "app", "-hset"}, []any{"ACL", "SETUSER", "app", "+hset"}, "app:k", false},
		"a key of another type": {none, none, "app:text", plain},
		"a counter of another":  {none, none, "app:hash", true},
		"a counter of words":    {none, none, "app:count", true},
		"no memory":             {[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}, "app:k", plain},
		"too few replicas":      {[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}, "app:k", plain},
	} {
		testkit.Do(t, m, c.begin...)
		r := do(t, n, acquire(c.name, "o:1"))
		testkit.Do(t, m, c.end...)
		testkit.Check(t, r.Err != nil && r.NothingDone == c.void, "%s: %v, void %v", what, r.Err, r.NothingDone)
		if strings.Contains(what, "forbidden") {
			isPermanent(t, r.Err)
		}
		testkit.Check(t, !c.void || !exists(t, m, "app:k"), "%s: void, and something was carried out", what)
		testkit.Do(t, m, "DEL", "app:k")
	}
}
