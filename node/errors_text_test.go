package node_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"

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
		{"connect", fmt.Errorf("%w: %w", node.ErrScripts, redis.Error("ERR unknown command 'EVALSHA', with args beginning with: '"+
			hash+"' '2' 'a name, with more'\n")), "node a: connect: runs no Lua scripts: ERR unknown command 'EVALSHA'"},
		{"acquire", node.ErrTimeout, "node a: acquire: timed out"},
		{"connect", node.ErrTimeout, "node a: connect: timed out (quorumlock check may tell why)"},
	} {
		if e := (&node.Error{Node: "a", Op: test.op, Err: test.err}); e.Error() != test.want {
			t.Errorf("%q, want %q", e, test.want)
		}
	}
}

// In JSON an error is what it says.
func TestErrorsInJSON(t *testing.T) {
	e := &node.Error{Node: "a", Op: "acquire", Err: node.ErrReplica}
	text, err := json.Marshal(map[string]any{"error": e})
	want := `{"error":{"node":"a","op":"acquire","error":"is a replica, not a master","kind":"replica","permanent":true}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}
