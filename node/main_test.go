package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// TestMain silences the default logger: the log of a test that wants one is set by it.
func TestMain(m *testing.M) { testkit.Main(m) }

const (
	timeout = time.Second            // of a node whose timeout is the subject: longer than a busy machine stands still
	lease   = 3 * bound              // a key that goes within bound was released
	bound   = 10 * time.Second       // for events that should be immediate
	slack   = 300 * time.Millisecond // the delay of a machine that does not stand still

	nodeName = "the-node" // of all nodes in these tests, unless they say otherwise
)

// members is the list of masters of the clients in these tests.
var members = scripts.NewList(nodeName)

// startReal starts one redis-server, or skips the test.
func startReal(t *testing.T, args ...string) *redistest.Master {
	t.Helper()
	return testkit.Real(t, 1, args...).Masters[0]
}

func startEmbedded(t *testing.T) *redistest.Master {
	t.Helper()
	return standin.ForTest(t, 1).Masters[0]
}

// onBoth runs a test on a real and on an embedded master.
func onBoth(t *testing.T, test func(*testing.T, *redistest.Master)) {
	t.Run("real", func(t *testing.T) { test(t, startReal(t)) })
	t.Run("embedded", func(t *testing.T) { test(t, startEmbedded(t)) })
}

// open opens a node without quarantine, and with a timeout that no busy machine exceeds, unless the
// options say otherwise. It is closed with the test.
func open(t *testing.T, url string, opts ...node.Option) *node.Node {
	t.Helper()
	n, err := node.Open(url, slices.Concat(usual, []node.Option{node.WithoutQuarantine()}, opts)...)
	return untilTheEnd(t, n, err)
}

// openReal is open for a redis-server of its own.
func openReal(t *testing.T, opts ...node.Option) (*redistest.Master, *node.Node) {
	t.Helper()
	m := startReal(t)
	return m, open(t, m.URL(), opts...)
}

// openPool is open for a pool.
func openPool(t *testing.T, pool *redis.Pool, opts ...node.Option) *node.Node {
	t.Helper()
	n, err := node.New(pool, slices.Concat(usual, []node.Option{node.WithoutQuarantine()}, opts)...)
	return untilTheEnd(t, n, err)
}

// openQuarantined is open with a quarantine of that length.
func openQuarantined(t *testing.T, url string, maxLease time.Duration, opts ...node.Option) *node.Node {
	t.Helper()
	n, err := node.Open(url, slices.Concat(usual, []node.Option{node.WithMaxLease(maxLease)}, opts)...)
	return untilTheEnd(t, n, err)
}

var usual = []node.Option{node.WithTimeout(bound), node.WithName(nodeName)}

func untilTheEnd(t *testing.T, n *node.Node, err error) *node.Node {
	t.Helper()
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, n.Close()) })
	return n
}

func acquireFor(maxLease time.Duration, name, owner string) scripts.Call {
	return scripts.Acquire(scripts.AcquireArgs{Names: testkit.Names(name), Owner: scripts.OwnerOf(owner), Depth: 1,
		Lease: scripts.ToMillis(min(lease, maxLease)), List: members, Seed: 1})
}

func acquire(name, owner string) scripts.Call { return acquireFor(node.DefaultMaxLease, name, owner) }

func release(name, owner string) scripts.Call {
	return scripts.Release(testkit.Names(name), scripts.OwnerOf(owner), 0)
}

// answer receives the result of one call.
type answer chan pipeline.Result

func (a answer) Done(r pipeline.Result) { a <- r }

// start starts a call. Its result is awaited with await.
func start(n *node.Node, key string, call scripts.Call, footprint *pipeline.Footprint) answer {
	a := make(answer, 2) // room for a second result, which must not block the node
	if err := inside.Of(n).Pipe(key).Start(call, footprint, a); err != nil {
		a <- pipeline.Result{Err: err}
	}
	return a
}

func await(t *testing.T, a answer) pipeline.Result {
	t.Helper()
	select {
	case r := <-a:
		return r
	case <-time.After(bound):
		t.Fatalf("no answer within %v", bound)
		panic("unreachable")
	}
}

// do runs one call as a locker does, and returns its result: see doAt.
func do(t *testing.T, n *node.Node, call scripts.Call) pipeline.Result {
	t.Helper()
	return doAt(t, n, "key", call)
}

// doAt runs one call over the pipe of that key. If the node's marker does not accept clients with
// the members, it marks the node, as a locker that may does, and runs the call again. A node of
// another deployment is an error.
func doAt(t *testing.T, n *node.Node, key string, call scripts.Call) pipeline.Result {
	t.Helper()
	r := await(t, start(n, key, call, nil))
	if r.Err != nil || r.Reply.Acquire.Outcome != scripts.NotAccepted {
		return r
	}
	if failed := settle(t, n); failed.Err != nil {
		return failed
	}
	return await(t, start(n, key, call, nil))
}

// identify returns the run id of the server's process.
func identify(ctx context.Context, n *node.Node) (string, error) {
	r := inside.Of(n).Pipe("").Do(ctx, scripts.Look())
	return r.RunID, r.Err
}

// mark marks a blank node as a locker does that a majority accepts.
func mark(t *testing.T, n *node.Node) {
	t.Helper()
	testkit.Must(t, settle(t, n).Err)
}

// settle is mark, and returns the first result that is an error. That a node refuses the members is
// one.
func settle(t *testing.T, n *node.Node) pipeline.Result {
	t.Helper()
	r := await(t, start(n, "key", scripts.Look(), nil))
	if r.Err != nil {
		return r
	}
	view := membership.Read(*r.Reply.Look, 0)
	switch view.Relation(members) {
	case membership.Refuses:
		return pipeline.Result{Err: &node.Error{Node: n.Name(), Op: "acquire", Err: view.Refusal(members)}}
	case membership.Accepts:
		return pipeline.Result{}
	}
	admitted := scripts.In(inside.Of(n).Quarantine)
	if _, given := change.AdmissionLeft(view); given {
		admitted = scripts.At(view.Marker().Admitted)
	}
	seen := view.Seen
	marker := scripts.Marker{Generation: 1, Members: members, Next: scripts.NewList()}
	return await(t, start(n, "key", scripts.Mark(seen, marker, admitted, scripts.In(0), view.Now+time.Minute), nil))
}

// outcome returns the reply to an acquire; it is zero for an error.
func outcome(r pipeline.Result) scripts.AcquireReply {
	if r.Err != nil {
		return scripts.AcquireReply{}
	}
	return r.Reply.Acquire
}

func isGranted(r pipeline.Result) bool { return outcome(r).Outcome == scripts.Granted }

func mustGrant(t *testing.T, r pipeline.Result) {
	t.Helper()
	testkit.Require(t, isGranted(r), "not granted: %+v, %v", r.Reply, r.Err)
}

// mustFail wants a *node.Error that names the node and wraps target.
func mustFail(t *testing.T, n *node.Node, err error, target error) {
	t.Helper()
	failed, ok := errors.AsType[*node.Error](err)
	testkit.Require(t, errors.Is(err, target) && ok && failed.Node == n.Name() && strings.Contains(err.Error(), n.Name()),
		"the error is %#v, %v: want one of %s that wraps %q", err, err, n.Name(), target)
}

// keys returns the keys of locks, without the library's own.
func keys(t *testing.T, m *redistest.Master) []string {
	t.Helper()
	all := testkit.Got(redis.Strings(m.Do("KEYS", "*")))(t)
	return slices.DeleteFunc(all, func(key string) bool { return strings.HasPrefix(key, scripts.Prefix) })
}

func exists(t *testing.T, m *redistest.Master, key string) bool {
	t.Helper()
	return fmt.Sprint(testkit.Do(t, m, "EXISTS", key)) == "1"
}

// stopwatch starts a stopwatch for took.
func stopwatch(t *testing.T) *poll.Stopwatch {
	w := poll.Start()
	t.Cleanup(w.Stop)
	return w
}

// took fails the test when less than atLeast has passed, or more than atMost, the slack, and what
// the machine's stalls explain.
func took(t *testing.T, what string, w *poll.Stopwatch, atLeast, atMost time.Duration) {
	t.Helper()
	d, stalled := w.Read()
	testkit.Check(t, d >= atLeast && d <= poll.AtMost(atMost+slack, stalled),
		"%s took %v, want %v to %v; the machine stood still for %v", what, d, atLeast, atMost, stalled)
	w.Stop()
}

// fakeServer is a server whose replies a test chooses.
type fakeServer struct {
	addr string
	stop func()

	mu       sync.Mutex
	received [][]string
}

var array, bulk = canned.Array, canned.Bulk

// startFake starts a server that replies with the results of handle. It ends with the test.
func startFake(t *testing.T, handle func(args []string) string) *fakeServer {
	t.Helper()
	f := &fakeServer{}
	f.addr, f.stop = canned.Listen(t, func(args []string) string {
		f.mu.Lock()
		f.received = append(f.received, args)
		f.mu.Unlock()
		return handle(args)
	})
	return f
}

// openFake is open for a server that replies with the results of handle.
func openFake(t *testing.T, handle func(args []string) string, opts ...node.Option) (*fakeServer, *node.Node) {
	t.Helper()
	f := startFake(t, handle)
	return f, open(t, f.url(), opts...)
}

func (f *fakeServer) url() string { return "redis://" + f.addr }

// all returns the received commands: each as its name and arguments.
func (f *fakeServer) all() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.received)
}

// greeting returns the reply of an admitted master to a command of the handshake; ok is false for
// other commands.
func greeting(args []string) (reply string, ok bool) {
	switch {
	case args[0] == "INFO":
		return bulk("run_id:" + strings.Repeat("0", 40) + "\r\nrole:master\r\n"), true
	case args[0] == "SCRIPT":
		return array(slices.Repeat([]any{1}, len(args)-2)...), true
	case args[0] == "CLIENT" || args[0] == "PING":
		return bulk(""), true
	case isLook(args):
		process := args[len(args)-1]
		return array(markerOf(process), 1, process), true
	case isMark(args):
		return array(1, markerOf(args[len(args)-1]), 1), true
	}
	return "", false
}

// admittedMaster answers the handshake as an admitted master, and all other commands so.
func admittedMaster(reply string) func([]string) string {
	return func(args []string) string {
		if greeting, ok := greeting(args); ok {
			return greeting
		}
		return reply
	}
}

func isLook(args []string) bool { return runs(args, "1") && len(args) == 5 }

func isMark(args []string) bool { return runs(args, "1") && len(args) > 5 }

// runs reports whether a command runs a script with that number of keys, the marker first.
func runs(args []string, keys string) bool {
	return strings.HasPrefix(args[0], "EVAL") && args[2] == keys && args[3] == scripts.MarkerKey
}

// fakeProcess is what a connection of [open] knows of a fake server.
var fakeProcess = scripts.Process{Run: strings.Repeat("0", 40), MaxLease: node.DefaultMaxLease, Member: nodeName}

// markerOf returns the marker of a process, as a call has it, that was admitted long ago.
func markerOf(process string) string {
	p, err := scripts.ParseProcess(process)
	if err != nil {
		return err.Error()
	}
	return scripts.Marker{Process: p, Generation: 1, Members: members, Next: scripts.NewList()}.String()
}
