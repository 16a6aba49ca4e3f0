package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

func TestErrorsAreShort(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	for _, test := range []struct {
		op   string
		err  error
		want string
	}{
		{"acquire", redis.Error("ERR something script: " + hash + ", on @user_script:3."), "node a: acquire: ERR something"},
		{"acquire", redis.Error("ERR Error running script (call to f_" + hash + "): @user_script:3: @user_script: 3: -OOM memory"),
			"node a: acquire: OOM memory"},
		{"release", redis.Error("NOREPLICAS Not enough good replicas to write. (HDEL)"), "node a: release: NOREPLICAS Not enough good replicas to write."},
		{"release", redis.Error("NOPERM this user may not (HDEL)"), "node a: release: NOPERM this user may not (HDEL)"},
		{"release", redis.Error("ERR unknown command called from script (HDEL)"), "node a: release: ERR unknown command called from script (HDEL)"},
		{"connect", fmt.Errorf("%w: %w", node.ErrScripts, redis.Error("ERR unknown command 'EVALSHA', with args beginning with: '"+
			hash+"' '2' 'a name, with more'\n")), "node a: connect: runs no Lua scripts: ERR unknown command 'EVALSHA'"},
		{"acquire", node.ErrTimeout, "node a: acquire: timed out"},
		{"connect", node.ErrTimeout, "node a: connect: timed out (quorumlock check may show why)"},
	} {
		testkit.Equal(t, (&node.Error{Node: "a", Op: test.op, Err: test.err}).Error(), test.want, "says")
	}
}

// The code of an error, and whether a retry fails until something is changed. TestWhatErrorRepliesMean of redisconn has the
// words of servers.
func TestKindsOfErrors(t *testing.T) {
	for want, err := range map[string]error{
		"timeout": fmt.Errorf("%w after 1s", node.ErrTimeout), "canceled": context.Canceled, "connection": io.EOF,
		"ERR": redis.Error("ODD something of a later server"), "OOM": redis.Error("OOM command not allowed"),
		"LOADING": redis.Error("LOADING Redis is loading"), "BUSY": redis.Error("BUSY a script runs"),
		"NOPERM, permanent": fmt.Errorf("%w: %w", node.ErrDown, redis.Error("NOPERM this user")),
		"closed, permanent": node.ErrClosed, "replica, permanent": node.ErrReplica, "evicts, permanent": node.ErrEvicts,
		"max_lease, permanent": node.ErrMaxLease, "failover, permanent": node.ErrFailover, "membership, permanent": node.ErrMembership,
		"invalid, permanent": node.ErrInvalid, "scripts, permanent": errors.Join(node.ErrScripts),
	} {
		e := &node.Error{Node: "a", Op: "acquire", Err: err}
		got := e.Code()
		if e.Permanent() {
			got += ", permanent"
		}
		testkit.Equal(t, got, want, err)
	}
}

// In JSON an error is what it says.
func TestErrorsInJSON(t *testing.T) {
	e := &node.Error{Node: "a", Op: "acquire", Err: node.ErrReplica}
	text, err := json.Marshal(map[string]any{"error": e})
	want := `{"error":{"node":"a","op":"acquire","error":"is a replica, not a master","code":"replica","permanent":true}}`
	testkit.Check(t, err == nil && string(text) == want, "%s, %v, want %s", text, err, want)
}
