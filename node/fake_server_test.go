package node_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

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

func (f *fakeServer) url() string { return "redis://" + f.addr }

// commands returns the received commands that run a script of a lock: each as its name and
// arguments.
func (f *fakeServer) commands() (list [][]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, args := range f.received {
		if strings.HasPrefix(args[0], "EVAL") && !isLook(args) && !isMark(args) {
			list = append(list, args)
		}
	}
	return list
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

// admittedMaster answers the handshake as an admitted master, and all other commands by handle.
func admittedMaster(handle func(args []string) string) func([]string) string {
	return func(args []string) string {
		if reply, ok := greeting(args); ok {
			return reply
		}
		return handle(args)
	}
}

// replying opens a node of an admitted master that replies so to the commands of locks: with one reply after the
// other, and then with the last one.
func replying(t *testing.T, replies ...string) (*fakeServer, *node.Node) {
	t.Helper()
	var asked atomic.Int64
	f := startFake(t, admittedMaster(func([]string) string { return replies[min(int(asked.Add(1)), len(replies))-1] }))
	return f, open(t, f.url())
}

func isLook(args []string) bool { return runs(args, "1") && len(args) == 5 }

func isMark(args []string) bool { return runs(args, "1") && len(args) > 5 }

// runs reports whether a command runs a script with so many keys, of which the marker is the first.
func runs(args []string, keys string) bool {
	return strings.HasPrefix(args[0], "EVAL") && args[2] == keys && args[3] == scripts.MarkerKey
}

// fakeProcess is what a connection of [open] knows of a fake server.
var fakeProcess = scripts.Process{Run: strings.Repeat("0", 40), MaxLease: node.DefaultMaxLease, Member: nodeName}

// notAccepted is the reply to an acquire of a fake server that has no marker.
var notAccepted = array("marker", "", fakeProcess.Expected(members))

// markerOf returns the marker of a process, as a call has it, that was admitted long ago.
func markerOf(process string) string {
	p, err := scripts.ParseProcess(process)
	if err != nil {
		return err.Error()
	}
	return scripts.Marker{Process: p, Generation: 1, Members: members, Next: scripts.NewList()}.String()
}

// isRelease distinguishes a release from an acquire, of one name each.
func isRelease(args []string) bool { return strings.HasPrefix(args[3], "quorumlock:released:") }
