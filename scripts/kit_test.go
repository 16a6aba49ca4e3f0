package scripts_test

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// server runs the vectors: redis-server, or the fake that must behave like it.
type server interface {
	testkit.Doer // an error reply is a redis.Error in the error's chain
	// Listen returns what is published on any channel while during runs.
	Listen(during func()) ([]message, error)
}

type message struct{ channel, payload string }

const runID = "the-run-id" // of the connection of a vector's call

// process is what the connection of a vector's call knows of its server.
var process = scripts.Process{Run: runID, MaxLease: maxLease, Member: "a"}

// connArgs returns the arguments that a connection to the process adds to a call.
func connArgs(call scripts.Call) scripts.ConnArgs {
	args := scripts.ConnArgs{Process: process.String(), Tombstone: scripts.NoTombstone}
	if call.List() != nil {
		args.Expected = process.Expected(call.List())
	}
	return args
}

// whole is a command with its name, as Do takes it.
func whole(name string, args []any) []any { return append([]any{name}, args...) }

// send sends a call with what a connection adds to it.
func send(s server, call scripts.Call) (any, error) {
	return s.Do(whole(call.Command(nil, true, connArgs(call)))...)
}

const (
	lease    = 10 * time.Second
	maxLease = 30 * time.Second
	seed     = 100

	me     = "locker:1"
	rival  = "locker:2"
	marker = "quorumlock:marker"
	tomb   = "quorumlock:released:" + me
	reader = "quorumlock:reader:" // and the owner: a member
)

// The lists of masters: the client's, and none.
var ours, none = scripts.NewList("a", "b", "c"), scripts.NewList()

func counterOf(name string) string { return scripts.NewName(name).Counter() }

// near and its neighbour share a counter, which no other name of the vectors has.
const near, neighbour = "stock:45", "stock:339"

// asking alters what is asked for.
type asking = func(*scripts.AcquireArgs)

// asked is a fresh grant of "k", as altered by the changes.
func asked(owner scripts.Owner, changes []asking) scripts.AcquireArgs {
	args := scripts.AcquireArgs{Names: testkit.Names("k"), Owner: owner, Depth: 1, Lease: scripts.ToMillis(lease), List: ours, Seed: seed}
	for _, change := range changes {
		change(&args)
	}
	return args
}

func acquire(changes ...asking) scripts.Call {
	return scripts.Acquire(asked(scripts.OwnerOf(me), changes))
}

func named(texts ...string) asking {
	return func(a *scripts.AcquireArgs) { a.Names = testkit.Names(texts...) }
}

// renewal renews one lock of the test's owner.
func renewal(token uint64, texts ...string) scripts.Renewal {
	return scripts.Renewal{Names: testkit.Names(texts...), Owner: scripts.OwnerOf(me), Token: token}
}

func asReader(changes ...asking) scripts.Call {
	return scripts.Read(asked(scripts.OwnerOf(me).AsReader(), changes))
}
