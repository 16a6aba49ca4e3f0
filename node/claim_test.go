package node_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// burial is the tombstone's time to live that a release asked for, in ms; "0" for none.
func burial(args []string) string { return args[len(args)-1] }

// buried is the burial of a release that may have been overtaken.
var buried = fmt.Sprint(node.DefaultMaxLease.Milliseconds())

func TestAReleaseLeavesNoTombstoneWithoutNeed(t *testing.T) {
	f := startFake(t, polite(func([]string) string { return ":1\r\n" }))
	n := open(t, f.url())
	claim := new(node.Claim)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), claim)))
	must(t, await(t, start(n, "key", release("k", "o:1"), claim)).Err)
	if heard := f.commands(); burial(heard[1]) != "0" {
		t.Errorf("the release is %q", heard[1])
	}
}

// The acquire that was cut off may be carried out yet, by the old connection: whoever releases must bar it.
func TestAReleaseAfterACutAcquireLeavesATombstone(t *testing.T) {
	var again atomic.Bool
	f := startFake(t, polite(func([]string) string {
		if !again.Swap(true) {
			return hangUp
		}
		return ":1\r\n"
	}))
	n := open(t, f.url())
	claim := new(node.Claim)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), claim)))
	lowered := scripts.Release(names("k"), scripts.OwnerOf("o:1"), 1)
	must(t, await(t, start(n, "key", lowered, claim)).Err)
	must(t, await(t, start(n, "key", release("k", "o:1"), claim)).Err)
	heard := f.commands()
	if len(heard) != 4 || burial(heard[2]) != "0" || burial(heard[3]) != buried {
		t.Errorf("heard %q: want the acquire twice, a release that buries nothing, as the owner goes on, and one that does", heard)
	}
}

// The connection dies with an acquire, which was given up meanwhile, and its release: only the release goes out again.
func TestOnlyTheReleaseOfWhatWasGivenUpGoesOutAgain(t *testing.T) {
	released := make(chan struct{})
	var cut atomic.Bool
	f := startFake(t, polite(func(args []string) string {
		if !cut.Swap(true) {
			<-released
			return hangUp
		}
		return ":0\r\n"
	}))
	n := open(t, f.url())
	claim := new(node.Claim)
	asked := start(n, "key", acquire("k", "o:1"), claim)
	eventually(t, "the acquire sent", func() bool { return len(f.commands()) > 0 })
	claim.Abandon()
	given := start(n, "key", release("k", "o:1"), claim)
	close(released)
	if r := await(t, asked); r.Err == nil || !r.Sent {
		t.Errorf("the acquire: %v %v, sent %v; want an error, sent", r.Value, r.Err, r.Sent)
	}
	must(t, await(t, given).Err)
	if heard := f.commands(); len(heard) != 2 || !isRelease(heard[1]) || burial(heard[1]) != buried {
		t.Errorf("heard %q: want the acquire and then a release with a tombstone", heard)
	}
}

// A release that a server does not know by its hash goes out as text, whatever became of its owner's claim.
func TestAReleaseOfWhatWasGivenUpIsAskedAgain(t *testing.T) {
	f := startFake(t, polite(func(args []string) string {
		if args[0] == "EVALSHA" {
			return "-NOSCRIPT No matching script\r\n"
		}
		return ":1\r\n"
	}))
	n := open(t, f.url())
	claim := new(node.Claim)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), claim)))
	claim.Abandon()
	if r := await(t, start(n, "key", release("k", "o:1"), claim)); r.Err != nil {
		t.Errorf("the release failed: %v", r.Err)
	}
}

// What is owed to a node that was down must reach it, also when it does not know the script by its hash.
func TestAReleaseThatIsOwedReachesAServerWithoutScripts(t *testing.T) {
	var up atomic.Bool
	f := startFake(t, func(args []string) string {
		if !up.Load() {
			return hangUp
		}
		if reply, ok := greeting(args); ok {
			return reply
		}
		if args[0] == "EVALSHA" {
			return "-NOSCRIPT No matching script\r\n"
		}
		return ":1\r\n"
	})
	n := open(t, f.url())
	if r := do(t, n, release("k", "o:1")); r.Err == nil {
		t.Fatalf("a server that hangs up answers %v", r.Value)
	}
	up.Store(true)
	eventually(t, "the release carried out", func() bool {
		for _, args := range f.commands() {
			if args[0] == "EVAL" && isRelease(args) {
				return true
			}
		}
		return false
	})
}

// What was on a connection that died goes out before what had not been on it, in the order of the Starts.
func TestWhatGoesOutAgainKeepsItsOrder(t *testing.T) {
	full := make(chan struct{})
	var cut atomic.Bool
	f := startFake(t, polite(func([]string) string {
		if !cut.Swap(true) {
			<-full
			return hangUp
		}
		return ":1\r\n"
	}))
	n := open(t, f.url(), node.WithTimeout(bound))
	answers := []answer{start(n, "key", acquire("0", "o:1"), nil)}
	eventually(t, "the first sent", func() bool { return len(f.commands()) == 1 })
	for i := range 32 { // more than sockets take: some are written, some wait
		owner := fmt.Sprint("o:", i, strings.Repeat("x", 1<<19))
		answers = append(answers, start(n, "key", acquire(fmt.Sprint(i+1), owner), nil))
	}
	close(full)
	for _, a := range answers {
		mustGrant(t, await(t, a))
	}
	for i, args := range f.commands()[1:] {
		if name := args[5]; name != fmt.Sprint(i) {
			t.Fatalf("%s came as number %d", name, i)
		}
	}
}

// While a node is down, each owner's last release is kept, and no more of it than that.
func TestOfEachOwnersReleasesTheLastIsOwed(t *testing.T) {
	var up atomic.Bool
	f := startFake(t, func(args []string) string {
		if !up.Load() {
			return hangUp
		}
		if reply, ok := greeting(args); ok {
			return reply
		}
		return ":1\r\n"
	})
	n := open(t, f.url())
	first, second := new(node.Claim), new(node.Claim)
	for level := 3; level >= 0; level-- {
		call := scripts.Release(names("k"), scripts.OwnerOf("o:1"), level)
		mustFail(t, n, await(t, start(n, "key", call, first)).Err, node.ErrDown)
	}
	mustFail(t, n, await(t, start(n, "key", release("k", "o:2"), second)).Err, node.ErrDown)
	mustFail(t, n, await(t, start(n, "key", release("k", "o:3"), nil)).Err, node.ErrDown)
	mustFail(t, n, await(t, start(n, "key", release("k", "o:4"), nil)).Err, node.ErrDown)
	up.Store(true)
	eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:5"))) })
	heard := map[string]string{}
	for _, args := range f.commands() {
		if isRelease(args) {
			owner, level := args[5], args[6]
			heard[owner] += level
		}
	}
	if len(heard) != 4 || heard["o:1"] != "0" || heard["o:2"] != "0" || heard["o:3"] != "0" || heard["o:4"] != "0" {
		t.Errorf("the levels released, by owner, are %v: want a 0 of each of four", heard)
	}
}
