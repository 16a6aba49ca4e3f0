package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

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
