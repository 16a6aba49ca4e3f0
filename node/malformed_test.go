package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// noReplies are replies that neither look nor mark can have sent.
var noReplies = map[string]string{
	"OK": "+OK\r\n", "null": "$-1\r\n", "a number": ":1\r\n", "negative": ":-5\r\n", "an error": "-ERR no\r\n", "text": "$1\r\n0\r\n",
	"an empty array": "*0\r\n", "a look of no process": array("", 1, "no process"), "a look before 1970": array("", -1, fakeProcess.String()),
	"a mark written twice": array(2, "", 1), "a mark before 1970": array(1, "", -1),
}

// A connection whose look gets such a reply is not used: nobody knows the server's deployment.
func TestGarbageInsteadOfALook(t *testing.T) {
	for what, reply := range noReplies {
		t.Run(what, func(t *testing.T) {
			greet := admittedMaster(":1\r\n")
			_, n := openFake(t, func(args []string) string {
				if isLook(args) {
					return reply
				}
				return greet(args)
			})
			mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrDown)
			err := operator.Admit(t.Context(), n)
			testkit.Check(t, errors.As(err, new(*node.Error)), "Admit: %v", err)
			_, err = operator.Check(t.Context(), n)
			testkit.Check(t, errors.As(err, new(*node.Error)), "Check: %v", err)
		})
	}
}

// Check of a sentinel says how it is asked for a master.
func TestCheckOfASentinel(t *testing.T) {
	_, n := openFake(t, func(args []string) string {
		if args[0] == "INFO" {
			return bulk("redis_mode:sentinel\r\nrun_id:x\r\n")
		}
		return "-ERR unknown command\r\n"
	})
	_, err := operator.Check(t.Context(), n)
	mustFail(t, n, err, node.ErrInvalid)
}

// Admit believes no such reply to its mark, and marks a limited number of times when others write the
// marker, too.
func TestAdmitOfAMasterThatIsNotMarked(t *testing.T) {
	replies := map[string]string{"the marker changes each time": array(0, "another marker", 1)}
	maps.Copy(replies, noReplies)
	for what, reply := range replies {
		t.Run(what, func(t *testing.T) {
			marks := 0
			f, n := openFake(t, func(args []string) string {
				if isMark(args) {
					marks++
					return reply
				}
				reply, _ := greeting(args)
				return reply
			})
			err := operator.Admit(t.Context(), n)
			failed, ok := errors.AsType[*node.Error](err)
			testkit.Check(t, ok && failed.Node == n.Name() && failed.Op == "admit", "Admit: %v", err)
			f.stop()
			testkit.Check(t, marks >= 1 && marks <= 10, "%d marks", marks)
		})
	}
}

// A server that sends replies to no command is left, none of them grants a lock, and Close is not delayed.
func TestAServerThatSendsUnaskedDoesNotDelayClose(t *testing.T) {
	_, n := openFake(t, admittedMaster(strings.Repeat(":7\r\n", 100_000)))
	err := do(t, n, acquire("k", "o:1")).Err
	testkit.Check(t, errors.Is(err, redisconn.ErrStray), "%v", err)
	closes(t, n, 2*timeout)
}

// An application's value at a name cannot make a reply so long that it ends the connection, which
// other calls share.
func TestAHugeFieldEndsNoConnection(t *testing.T) {
	m, n := openReal(t)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	huge := strings.Repeat("x", 2<<20)
	testkit.Do(t, m, "HSET", "field", huge, "1")
	testkit.Do(t, m, "HSET", "level", "o:1", huge)
	testkit.Do(t, m, "SET", scripts.NewName("counter").Counter(), huge)
	id := func() string {
		list := testkit.Got(redis.String(m.Do("CLIENT", "LIST")))(t)
		first, _, _ := strings.Cut(list, " ")
		return first
	}
	before := id()
	for _, name := range []string{"field", "level", "counter"} {
		r := do(t, n, operators.Inspect(scripts.NewName(name)))
		testkit.Check(t, strings.Contains(fmt.Sprint(r.Err), "QUORUMLOCK"), "%s: %.100v, %v", name, r.Reply, r.Err)
	}
	testkit.Equal(t, id(), before, "the connection's id")
}

// What a hostile server says stands in errors, reports and logs as printable text in one line. The error keeps its meaning.
func TestHostileTexts(t *testing.T) {
	const evil = "evil\x1b[2J\u009b31m\x9b\u202e"
	wantPlain := func(what, text string) {
		t.Helper()
		testkit.Check(t, strings.Contains(text, "evil") &&
			!strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }), "%s: %q", what, text)
	}
	for what, test := range map[string]struct {
		members []string // of the marker
		refuses string   // commands that begin so
		want    error
	}{
		"members": {members: []string{nodeName, evil + "\nforged"}, want: node.ErrMembership},
		"scripts": {refuses: "EVAL"},
		"INFO":    {refuses: "INFO"},
	} {
		t.Run(what, func(t *testing.T) {
			handle := admittedMaster(array("marker", hostileMarker(test.members), fakeProcess.Expected(members)))
			f := startFake(t, func(args []string) string {
				switch {
				case test.refuses != "" && strings.HasPrefix(args[0], test.refuses):
					return "-NOPERM " + evil + "\r\n"
				case test.members != nil && isLook(args):
					return array(hostileMarker(test.members), 1, args[len(args)-1])
				}
				return handle(args)
			})
			log := &lines{}
			n := open(t, f.url(), node.WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
			log.node = n
			r := do(t, n, acquire("k", "o:1"))
			if err := r.Err; err != nil {
				wantPlain("the error", err.Error())
				isPermanent(t, err)
			}
			report, err := operator.Check(t.Context(), n)
			if err != nil {
				wantPlain("the error of Check", err.Error())
			} else if test.want == nil {
				t.Error("no error of Check")
			} else {
				wantPlain("a list of the report", fmt.Sprint(scripts.NewList(report.Members...)))
			}
			testkit.Eventually(t, "logged", func() bool { return log.logged() > 0 })
			for line := range strings.Lines(log.String()) {
				wantPlain("a line of the log", strings.TrimSuffix(line, "\n"))
			}
		})
	}
}

func hostileMarker(members []string) string {
	return scripts.Marker{Process: fakeProcess, Generation: 1, Members: scripts.NewList(members...), Next: scripts.NewList()}.String()
}

func TestErrorsAreShort(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	sha, line := fmt.Sprint(scripts.All()[0].SHA()), 1
	for len(scripts.CommandsAt(sha, line)) == 0 {
		line++
	}
	inAcquire := fmt.Sprintf(" script: %s, on @user_script:%d.", sha, line)
	needed := " (" + strings.Join(scripts.CommandsAt(sha, line), " or ") + ")"
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
		{"acquire", redis.Error("WRONGTYPE Operation against a key"), "node a: acquire: WRONGTYPE Operation against a key " +
			"(another client's lock, redsync's perhaps, is at this key)"},
		{"connect", fmt.Errorf("the key quorumlock:marker: %w", redis.Error("WRONGTYPE Operation")), "node a: connect: the key quorumlock:marker: WRONGTYPE Operation"},
		{"connect", errors.New("the channel is sealed (HSM)"), "node a: connect: the channel is sealed (HSM)"},
		{"acquire", redis.Error("NOPERM No permissions to access a key"), "node a: acquire: NOPERM No permissions to access a key " +
			"(the user needs the keys quorumlock:* and the names of its locks)"},
		{"acquire", redis.Error("NOPERM No permissions to access a channel"), "node a: acquire: NOPERM No permissions to access a channel " +
			"(the user needs the channels redisson_lock__channel* and quorumlock:seal)"},
		{"acquire", redis.Error("OOM no" + inAcquire), "node a: acquire: OOM no"},
		{"acquire", redis.Error("ERR The user may not" + inAcquire), "node a: acquire: ERR The user may not"},
		{"acquire", redis.Error("ERR The user executing the script may not" + inAcquire), "node a: acquire: ERR The user executing the script may not" + needed},
		{"acquire", redis.Error("ERR The user executing the script may not script: " + sha + ", on @user_script:99999."),
			"node a: acquire: ERR The user executing the script may not"},
		{"acquire", io.EOF, "node a: acquire: EOF"},
		{"acquire", node.ErrTimeout, "node a: acquire: timed out"},
		{"connect", node.ErrTimeout, "node a: connect: timed out (quorumlock check may show why)"},
	} {
		testkit.Equal(t, (&node.Error{Node: "a", Op: test.op, Err: test.err}).Error(), test.want, "says")
	}
	for _, said := range []string{"a key", "a channel"} {
		text := (&node.Error{Node: "a?prefix=team", Err: redis.Error("NOPERM No permissions to access " + said)}).Error()
		testkit.Check(t, strings.HasSuffix(text, said+" (the user needs the keys and channels team:*)"), "%s", text)
	}
	for _, said := range []string{"WRONGTYPE Operation against a key", "NOPERM this user has no permissions to run the 'evalsha' command"} {
		text := (&node.Error{Node: "a?prefix=team", Err: redis.Error(said)}).Error()
		testkit.Check(t, !strings.Contains(text, "needs"), "%s", text)
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
