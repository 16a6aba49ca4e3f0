package scripts_test

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// server runs the vectors: redis-server, or the fake that must behave like it.
type server interface {
	// Do runs one command. Its replies have the types of redigo: []byte, int64, nil, []any; error
	// replies are a redis.Error in the error's chain.
	Do(args ...any) (any, error)
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

// typed returns the field that a reply to the call sets; true if it sets none.
func typed(call scripts.Call, v any) (any, error) {
	r, err := call.Parse(v)
	if err != nil {
		return nil, err
	}
	switch call.Op() {
	case "acquire", "read":
		return r.Acquire, nil
	case "renew":
		return r.Renew, nil
	case "release":
		return r.Release, nil
	case "raise":
		return r.Raise, nil
	case "force":
		return r.Force, nil
	case "inspect":
		return *r.Inspect, nil
	case "look":
		return *r.Look, nil
	case "mark":
		return *r.Mark, nil
	case "slots":
		return *r.Slots, nil
	case "who":
		return r.Who, nil
	case "introduce":
		return true, nil
	}
	return r.Other, nil
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

func granted(token uint64) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.Granted, Token: token}
}

func held(wait time.Duration) scripts.AcquireReply { return heldBy(rival, wait) }

func heldBy(owner string, wait time.Duration) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: wait, Holder: owner}
}

// notAccepted is the reply of a node whose marker does not accept the client: some marker, or none.
func notAccepted(marker string) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.NotAccepted, NotAccepted: &scripts.Refusal{Marker: marker, Process: process}}
}

// renewal renews one lock of the test's owner.
func renewal(token uint64, texts ...string) scripts.Renewal {
	return scripts.Renewal{Names: testkit.Names(texts...), Owner: scripts.OwnerOf(me), Token: token}
}

// reserved is the refusal of a reader that a writer keeps back.
func reserved(wait time.Duration) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: wait, Reserved: true}
}

// byReaders is a writer's refusal.
func byReaders(last string, wait time.Duration, count int) scripts.AcquireReply {
	reply := heldBy(last, wait)
	reply.Readers = count
	return reply
}

func asReader(changes ...asking) scripts.Call {
	return scripts.Read(asked(scripts.OwnerOf(me).AsReader(), changes))
}
