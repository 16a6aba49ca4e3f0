package node_test

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// The modes of a hostile server.
const (
	hangsUp  = 1 << iota // it closes the connection after its bytes; else it stays silent
	dribbles             // it sends one byte at a time, a quarter of the timeout apart
	rude                 // it sends its bytes at once; else only in reply to the first call after the handshake
)

const fuzzTimeout = 100 * time.Millisecond

var (
	fuzzMembers = scripts.NewList("10.0.0.1:1")
	fuzzProcess = scripts.Process{Run: "abc", MaxLease: node.DefaultMaxLease, Member: "10.0.0.1:1"}
	fuzzAddress = bulk("laddr=10.0.0.1:1 db=0") // in the reply to CLIENT INFO
	// fuzzLooked is the reply to look of a server without a marker.
	fuzzLooked = "*3\r\n$0\r\n\r\n:1\r\n" + bulk(fuzzProcess.String())
)

// fuzzCalls names one call of each kind; Check and Admit use a connection of their own.
var fuzzCalls = []string{"acquire", "renew", "release", "raise", "inspect", "force", "look", "mark", "Check", "Admit", "Identify"}

// FuzzReplies makes a server send arbitrary bytes to every call, over connections as Open makes
// them. Nothing panics. Nothing is sent to a server that makes no handshake. Only a well-formed reply that grants is a grant. The call ends and the node
// closes in time. No goroutine is left, or the bubble would not end.
func FuzzReplies(f *testing.F) {
	info := "$26\r\nrun_id:abc\r\nrole:master\r\n\r\n"
	greeting := strings.Repeat(info, 3) + strings.Repeat("+OK\r\n", len(scripts.All())) + fuzzAddress + fuzzLooked
	marker := scripts.Marker{Process: fuzzProcess, Generation: 1, Members: fuzzMembers, Next: scripts.NewList()}.String()
	refused := "*3\r\n$6\r\nmarker\r\n" + bulk(marker) + bulk(fuzzProcess.Expected(fuzzMembers))
	inspected := "*6\r\n$3\r\nme:\r\n$1\r\n1\r\n:5000\r\n$1\r\n7\r\n$3\r\nabc\r\n:0\r\n"
	for call := range fuzzCalls {
		for _, mode := range []int{0, hangsUp} {
			for _, sent := range []string{
				"", ":1\r\n", ":9007199254740991\r\n", ":9007199254740992\r\n", ":0\r\n", ":-1\r\n", ":\r\n", ":1", ":1\n", ":1 \r\n", "1\r\n",
				"+1\r\n", "$1\r\n1\r\n", "*1\r\n:1\r\n", "*-1\r\n", "$-1\r\n", "*0\r\n", "#t\r\n", "_\r\n",
				":9223372036854775807\r\n", ":99999999999999999999999\r\n", ":4503599627370496\r\n", "*2\r\n-ERR a\r\n-ERR b\r\n", "*3\r\n$4\r\nheld\r\n:1500\r\n:8\r\n", "*2\r\n$8\r\nreleased\r\n:0\r\n:5\r\n",
				"-NOSCRIPT no\r\n:5\r\n", "-NOSCRIPT no\r\n-NOSCRIPT no\r\n:5\r\n", "-ERR no\r\n:5\r\n", "-\r\n",
				refused, strings.Replace(refused, "*3", "*4", 1) + "$4\r\nNNNN\r\n", fuzzLooked, strings.Replace(fuzzLooked, "$0\r\n\r\n", bulk(marker), 1),
				"*3\r\n:1\r\n" + bulk(marker) + ":5\r\n", "*3\r\n:0\r\n$0\r\n\r\n:5\r\n",
				"$4\r\nRRRR\r\n", "$1\r\nR\r\n:1\r\n", inspected, "$1048577\r\n", "*4097\r\n", "$99999999999999999999\r\n", strings.Repeat("*1\r\n", 9),
				"$1\r\nab\r\n:1\r\n", "\r\n:1\r\n", "*1\r\n-ERR nested\r\n",
			} {
				f.Add([]byte(sent), byte(call), byte(mode))
			}
			for _, sent := range []string{ // which begin with the first byte
				"", "-ERR no\r\n", ":1\r\n", "$0\r\n\r\n", "$-1\r\n", "$999999999999\r\n", "*999999999\r\n", greeting, greeting + ":5\r\n",
				strings.Repeat(info, 4) + "+PONG\r\n*2\r\n$4\r\nsave\r\n$0\r\n\r\n" + inspected, info + info + info + fuzzLooked, info + info + info + fuzzLooked + "*3\r\n:1\r\n" + bulk(marker) + ":5\r\n",
				strings.Replace(greeting, "role:master", "role:slave\r", 1),
			} {
				f.Add([]byte(sent), byte(call), byte(mode|rude))
			}
		}
		for _, sent := range canned.Garbage() {
			f.Add([]byte(sent), byte(call), byte(rude))
		}
		f.Add([]byte(":5\r\n"), byte(call), byte(dribbles))
		f.Add([]byte(greeting+":5\r\n"), byte(call), byte(dribbles|rude))
	}
	f.Fuzz(func(t *testing.T, sent []byte, call, mode byte) {
		if len(sent) > 1<<14 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			h := &hostile{canned.Hostile{Sent: sent, Timeout: fuzzTimeout, Dribbles: mode&dribbles != 0}, int(mode)}
			h.Serve = h.serve
			h.run(t, fuzzCalls[int(call)%len(fuzzCalls)])
		})
	})
}

type hostile struct {
	canned.Hostile
	mode int
}

func (h *hostile) serve(c net.Conn) {
	received := make(chan string, 1024) // the commands' first words; buffered: a net.Pipe has no buffer, and reading must not wait for writing
	go readCommands(c, received)
	if h.mode&rude == 0 {
		for range 4 { // INFO, CLIENT INFO, SCRIPT EXISTS, look
			reply := "+OK\r\n"
			switch command, ok := <-received; {
			case !ok:
				return
			case command == "INFO":
				reply = "$12\r\nrun_id:abc\r\n\r\n"
			case command == "CLIENT":
				reply = fuzzAddress
			case strings.HasPrefix(command, "EVAL"):
				reply = fuzzLooked
			}
			if _, err := c.Write([]byte(reply)); err != nil {
				return
			}
		}
		if _, ok := <-received; !ok {
			return
		}
	}
	if !h.Send(c) || h.mode&hangsUp != 0 {
		return
	}
	for range received {
	}
}

// readCommands reads commands until the connection is closed.
func readCommands(c net.Conn, received chan<- string) {
	defer close(received)
	for in := bufio.NewReader(c); ; {
		args, err := fakeredis.ReadCommand(in)
		if err != nil {
			return
		}
		select {
		case received <- args[0]:
		default: // more commands than any of these tests sends
		}
	}
}

// run makes one call to the hostile server.
func (h *hostile) run(t *testing.T, call string) {
	h.Serving.Add(1)
	defer func() { // the server ends with its last connection
		h.Serving.Done()
		h.Serving.Wait()
	}()
	pool := &redis.Pool{MaxIdle: 2, DialContext: h.Dial}
	defer pool.Close()
	n := testkit.Got(node.New(pool, node.WithTimeout(fuzzTimeout)))(t)
	bound := redisconn.ConnectTimeout(fuzzTimeout) + 5*fuzzTimeout
	if h.mode&dribbles != 0 {
		bound *= 3 // each reply to one call may take a timeout
	}
	began := time.Now()
	switch call {
	case "Check":
		report, err := operator.Check(t.Context(), n)
		h.failsWell(t, n, call, err)
		hasProcess := report.RunID != "" || h.mode&rude != 0
		testkit.Check(t, err != nil || hasProcess && report.Quarantine >= 0 && report.Uptime >= 0,
			"%q: the report is %+v", h.Sent, report)
	case "Admit":
		h.failsWell(t, n, call, operator.Admit(t.Context(), n))
	case "Identify":
		id, err := identify(t.Context(), n)
		h.failsWell(t, n, call, err)
		testkit.Check(t, err != nil || id != "", "%q: a run id that no server sent", h.Sent)
	default:
		h.ask(t, n, call)
	}
	d := time.Since(began)
	testkit.Check(t, d <= bound, "%q, mode %b: %s took %v", h.Sent, h.mode, call, d)
	began = time.Now()
	n.Close()
	d = time.Since(began)
	testkit.Check(t, d <= 2*fuzzTimeout, "%q, mode %b: closing took %v after %s", h.Sent, h.mode, d, call)
}

func (h *hostile) failsWell(t *testing.T, n *node.Node, call string, err error) {
	t.Helper()
	failed, ok := errors.AsType[*node.Error](err)
	testkit.Check(t, err == nil || ok && failed.Node != "",
		"%q, mode %b: %s failed with %#v, want an *Error that names its node", h.Sent, h.mode, call, err)
}

// ask makes one script's call, and checks its result.
func (h *hostile) ask(t *testing.T, n *node.Node, op string) {
	k, owner, ms := []scripts.Name{scripts.NewName("k"), scripts.NewName("l")}, scripts.NewOwner("locker", 1), scripts.ToMillis(time.Second)
	batch := []scripts.Renewal{{Names: k, Owner: owner, Token: 5}, {Names: k, Owner: owner, Token: 5}}
	var call scripts.Call
	switch op {
	case "acquire":
		call = scripts.Acquire(scripts.AcquireArgs{Names: k, Owner: owner, Depth: 1, Lease: ms, List: fuzzMembers, Seed: 1})
	case "renew":
		call = scripts.Renew(fuzzMembers, ms, batch)
	case "release":
		call = scripts.Release(k, owner, 0)
	case "raise":
		call = scripts.Raise(k, owner, 5)
	case "inspect":
		call = operators.Inspect(k[0])
	case "force":
		call = operators.Force(k[0], []scripts.Owner{owner}, 0, time.Second)
	case "look":
		call = scripts.Look()
	case "mark":
		call = testkit.Got(change.Admit(membership.Read(scripts.Seen{Process: fuzzProcess}, 0), fuzzMembers))(t)
	}
	var footprint pipeline.Footprint
	received := make(answer, 4)
	testkit.Must(t, inside.Of(n).Pipe("k").Start(call, &footprint, received))
	r := <-received
	h.failsWell(t, n, op, r.Err)
	token := int64(outcome(r).Token)
	testkit.Check(t, !isGranted(r) || h.mayGrant(token), "%q, mode %b: the node granted token %d", h.Sent, h.mode, token)
	testkit.Check(t, r.Err != nil || r.Sent && r.RunID != "",
		"%q, mode %b: %s: a reply that no server sent, %+v", h.Sent, h.mode, op, r)
	testkit.Check(t, h.mode&rude == 0 || bytes.Contains(h.Sent, []byte("run_id")) || !r.Sent && errors.Is(r.Err, node.ErrDown),
		"%q, mode %b: %s of a server without a handshake: sent %v, %v", h.Sent, h.mode, op, r.Sent, r.Err)
	h.passesOn(t, op, call, r)

	if op == "acquire" { // as a locker does after a failed attempt
		footprint.Abandon()
		if err := inside.Of(n).Pipe("k").Start(scripts.Release(k, owner, 0), &footprint, received); err == nil {
			h.failsWell(t, n, "release", (<-received).Err)
		}
	}
	synctest.Wait()
	testkit.Check(t, len(received) == 0, "%q, mode %b: %s was answered twice", h.Sent, h.mode, op)
}

// mayGrant reports whether the server's bytes can grant that token to an acquire.
func (h *hostile) mayGrant(token int64) bool {
	replies := strictReplies(h.Sent)
	if h.mode&rude != 0 { // the bytes include the handshake
		return slices.ContainsFunc(replies, func(v any) bool { return v == token })
	}
	for range min(2, len(replies)-1) {
		if reason, _ := replies[0].(redis.Error); strings.HasPrefix(string(reason), "NOSCRIPT") {
			replies = replies[1:]
		}
	}
	return len(replies) > 0 && replies[0] == token
}

// passesOn wants the one reply of a well-behaved server to reach the caller unchanged.
func (h *hostile) passesOn(t *testing.T, op string, call scripts.Call, r pipeline.Result) {
	value, rest, ok := strictReply(h.Sent)
	if !ok || len(rest) > 0 || h.mode&(rude|dribbles) != 0 || bytes.Contains(h.Sent, []byte("NOSCRIPT")) ||
		bytes.Count(h.Sent, []byte("*")) > 8 || len(h.Sent) > 1<<12 {
		return
	}
	if reason, bad := value.(redis.Error); bad {
		testkit.Check(t, errors.Is(r.Err, reason) || op == "release", // a refused release is resent, and fails again
			"%q, mode %b: %s failed with %v", h.Sent, h.mode, op, r.Err)
	} else if want, bad := call.Parse(value); (bad == nil) != (r.Err == nil) || bad == nil && !reflect.DeepEqual(r.Reply, want) {
		t.Errorf("%q, mode %b: %s is answered %#v (%v)", h.Sent, h.mode, op, r.Reply, r.Err)
	}
}

// strictReplies reads RESP until it is cut off or malformed.
func strictReplies(sent []byte) (replies []any) {
	for {
		value, rest, ok := strictReply(sent)
		if !ok {
			return replies
		}
		replies, sent = append(replies, value), rest
	}
}

// strictReply reads one reply by the letter of RESP 2, as a value of redigo.
func strictReply(sent []byte) (value any, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(sent, []byte("\n"))
	if !ok || len(line) < 2 || line[len(line)-1] != '\r' {
		return nil, nil, false
	}
	kind, text := line[0], string(line[1:len(line)-1])
	if kind == '+' {
		return text, rest, true
	}
	if kind == '-' {
		return redis.Error(text), rest, true
	}
	number, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || strings.HasPrefix(text, "+") || len(text) > len("-9223372036854775808"):
		return nil, nil, false
	case kind == ':':
		return number, rest, true
	case text == "-1" && (kind == '$' || kind == '*'):
		return nil, rest, true
	case strings.HasPrefix(text, "-"):
		return nil, nil, false
	case kind == '$':
		if number > int64(len(rest))-2 || rest[number] != '\r' || rest[number+1] != '\n' {
			return nil, nil, false
		}
		return append([]byte{}, rest[:number]...), rest[number+2:], true
	case kind == '*':
		list := []any{}
		for range number {
			var v any
			if v, rest, ok = strictReply(rest); !ok {
				return nil, nil, false
			}
			list = append(list, v)
		}
		return list, rest, true
	}
	return nil, nil, false
}
