package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
		{"connect", fmt.Errorf("%w: %w", node.ErrScripts, redis.Error("ERR unknown command 'EVALSHA', with args beginning with: '"+
			hash+"' '2' 'a name, with more'\n")), "node a: connect: runs no Lua scripts: ERR unknown command 'EVALSHA'"},
		{"acquire", node.ErrTimeout, "node a: acquire: timed out"},
		{"connect", node.ErrTimeout, "node a: connect: timed out (quorumlock check may show why)"},
	} {
		testkit.Equal(t, (&node.Error{Node: "a", Op: test.op, Err: test.err}).Error(), test.want, "says")
	}
}

// The words come from the servers' versions.
func TestWhichErrorsArePermanent(t *testing.T) {
	permanent := []error{
		redis.Error("ERR unknown command 'EVALSHA', with args beginning with: "),
		redis.Error("ERR unknown command `EVALSHA`, with args beginning with: "),
		redis.Error("ERR Could not find scripting engine 'lua'"),
		redis.Error("ERR Unknown Redis command called from script script: 1234, on @user_script:3."),
		redis.Error("ERR Unknown command called from script script: 1234, on @user_script:3."),
		redis.Error("ERR Error running script (call to f_1234): @user_script:3: @user_script: 3: Unknown Redis command called from Lua script "),
		redis.Error("ERR The user executing the script can't run this command or subcommand script: f, on @user_script:85."),
		redis.Error("ERR ACL failure in script: User app has no permissions to run the 'hset' command script: f, on @user_script:85."),
		redis.Error("ERR Error running script (call to f_1): @user_script:85: @user_script: 85: The user executing the script can't run this command or subcommand"),
		redis.Error("ERR Error running script (call to f_1): @user_script:85: @user_script: 85: -READONLY You can't write against a read only replica."),
		errors.Join(node.ErrScripts),
	}
	transient := []error{node.ErrTimeout, redis.Error("LOADING Redis is loading"), redis.Error("BUSY a script runs"), redis.Error("OOM command not allowed")}
	for i, err := range slices.Concat(permanent, transient) {
		testkit.Equal(t, (&node.Error{Node: "a", Op: "acquire", Err: err}).Permanent(), i < len(permanent), err)
	}
	testkit.Equal(t, (&node.Error{Node: "a", Op: "connect", Err: errors.Join(node.ErrScripts)}).Code(), "scripts", "code")
}

// In JSON an error is what it says.
func TestErrorsInJSON(t *testing.T) {
	e := &node.Error{Node: "a", Op: "acquire", Err: node.ErrReplica}
	text, err := json.Marshal(map[string]any{"error": e})
	want := `{"error":{"node":"a","op":"acquire","error":"is a replica, not a master","code":"replica","permanent":true}}`
	testkit.Check(t, err == nil && string(text) == want, "%s, %v, want %s", text, err, want)
}
