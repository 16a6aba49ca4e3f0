package node_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/internal/pipeline"
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
	claim := new(pipeline.Claim)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), claim)))
	must(t, await(t, start(n, "key", release("k", "o:1"), claim)).Err)
	if heard := f.commands(); burial(heard[1]) != "0" {
		t.Errorf("the release is %q", heard[1])
	}
}

// The acquire that was cut off may be carried out yet, by the old connection: whoever releases must
// bar it.
func TestAReleaseAfterACutAcquireLeavesATombstone(t *testing.T) {
	var again atomic.Bool
	f := startFake(t, polite(func([]string) string {
		if !again.Swap(true) {
			return hangUp
		}
		return ":1\r\n"
	}))
	n := open(t, f.url())
	claim := new(pipeline.Claim)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), claim)))
	lowered := scripts.Release(names("k"), scripts.OwnerOf("o:1"), 1)
	must(t, await(t, start(n, "key", lowered, claim)).Err)
	must(t, await(t, start(n, "key", release("k", "o:1"), claim)).Err)
	heard := f.commands()
	if len(heard) != 4 || burial(heard[2]) != "0" || burial(heard[3]) != buried {
		t.Errorf("heard %q: want the acquire twice, a release that buries nothing, as the owner goes on, and one that does", heard)
	}
}

// The connection dies with an acquire, which was given up meanwhile, and its release: only the
// release goes out again.
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
	claim := new(pipeline.Claim)
	asked := start(n, "key", acquire("k", "o:1"), claim)
	eventually(t, "the acquire sent", func() bool { return len(f.commands()) > 0 })
	claim.Abandon()
	given := start(n, "key", release("k", "o:1"), claim)
	close(released)
	if r := await(t, asked); r.Err == nil || !r.Sent {
		t.Errorf("the acquire: %v %v, sent %v; want an error, sent", r.Reply, r.Err, r.Sent)
	}
	must(t, await(t, given).Err)
	if heard := f.commands(); len(heard) != 2 || !isRelease(heard[1]) || burial(heard[1]) != buried {
		t.Errorf("heard %q: want the acquire and then a release with a tombstone", heard)
	}
}

// A release that a server does not know by its hash goes out as text, whatever became of its
// owner's claim.
func TestAReleaseOfWhatWasGivenUpIsAskedAgain(t *testing.T) {
	f := startFake(t, polite(func(args []string) string {
		if args[0] == "EVALSHA" {
			return "-NOSCRIPT No matching script\r\n"
		}
		return ":1\r\n"
	}))
	n := open(t, f.url())
	claim := new(pipeline.Claim)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), claim)))
	claim.Abandon()
	if r := await(t, start(n, "key", release("k", "o:1"), claim)); r.Err != nil {
		t.Errorf("the release failed: %v", r.Err)
	}
}

// What is owed to a node that was down must reach it, also when it does not know the script by its
// hash.
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
		t.Fatalf("a server that hangs up answers %v", r.Reply)
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

// What was on a connection that died goes out before what had not been on it, in the order of the
// Starts.
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
	first, second := new(pipeline.Claim), new(pipeline.Claim)
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

// What comes to be owed while the node pays is paid before anything new is asked: the last release
// of an owner that is being paid for, and that of another.
func TestWhatComesToBeOwedDuringThePaymentIsPaidToo(t *testing.T) {
	var up atomic.Bool
	paying, more := make(chan struct{}), make(chan struct{})
	f := startFake(t, func(args []string) string {
		if !up.Load() {
			return hangUp
		}
		if reply, ok := greeting(args); ok {
			return reply
		}
		if isRelease(args) && args[6] == "1" {
			close(paying)
			<-more
		}
		return ":1\r\n"
	})
	n := open(t, f.url(), node.WithTimeout(bound))
	first, second := new(pipeline.Claim), new(pipeline.Claim)
	lowered := scripts.Release(names("k"), scripts.OwnerOf("o:1"), 1)
	mustFail(t, n, await(t, start(n, "key", lowered, first)).Err, node.ErrDown)
	up.Store(true)
	<-paying
	mustFail(t, n, await(t, start(n, "key", release("k", "o:1"), first)).Err, node.ErrDown)
	mustFail(t, n, await(t, start(n, "key", release("k", "o:2"), second)).Err, node.ErrDown)
	close(more)
	eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:3"))) })
	heard := f.commands()
	if len(heard) != 4 || heard[1][5]+heard[1][6] != "o:10" || heard[2][5]+heard[2][6] != "o:20" {
		t.Errorf("heard %q: want the release that was owed, those that came to be, and then the acquire", heard)
	}
}

// An acquire that was cut off and waits for the next connection, which does not come, may have been
// carried out.
func TestACutAcquireOfAMasterThatGoesDownCountsAsSent(t *testing.T) {
	var gone atomic.Bool
	greet := polite(func([]string) string {
		gone.Store(true)
		return hangUp
	})
	f := startFake(t, func(args []string) string {
		if gone.Load() {
			return hangUp
		}
		return greet(args)
	})
	n := open(t, f.url())
	r := await(t, start(n, "key", acquire("k", "o:1"), new(pipeline.Claim)))
	mustFail(t, n, r.Err, node.ErrDown)
	if !r.Sent || !r.Resent {
		t.Errorf("sent %v, twice %v: it may have been carried out", r.Sent, r.Resent)
	}
}

// Whoever is refused must know when the request had gone out before, on a connection that died:
// that one may be granted yet.
func TestARefusalTellsThatItsRequestWentOutTwice(t *testing.T) {
	const held, stale = "*3\r\n$4\r\nheld\r\n:1000\r\n:0\r\n", "*2\r\n$5\r\nstale\r\n:0\r\n"
	for what, c := range map[string]struct {
		replies []string
		twice   bool
	}{
		"once":                            {[]string{held}, false},
		"cut":                             {[]string{hangUp, held}, true},
		"cut, then before the marker":     {[]string{hangUp, stale, held}, true},
		"not known by its hash, then cut": {[]string{"-NOSCRIPT No matching script\r\n", hangUp, held}, true},
	} {
		t.Run(what, func(t *testing.T) {
			var next atomic.Int64
			f := startFake(t, polite(func([]string) string { return c.replies[next.Add(1)-1] }))
			n := open(t, f.url())
			r := await(t, start(n, "key", acquire("k", "o:1"), new(pipeline.Claim)))
			if reply := outcome(r); reply.Outcome != scripts.Held || r.Resent != c.twice {
				t.Errorf("the answer is %v, %v, twice %v; want held, twice %v", r.Reply, r.Err, r.Resent, c.twice)
			}
		})
	}
}

// A release that the server is too busy to carry out goes out again, before anything else does.
func TestAReleaseThatIsRefusedGoesOutAgain(t *testing.T) {
	var refused atomic.Bool
	f := startFake(t, polite(func(args []string) string {
		if isRelease(args) && !refused.Swap(true) {
			return "-BUSY Redis is busy running a script\r\n"
		}
		return ":1\r\n"
	}))
	n := open(t, f.url())
	if r := do(t, n, release("k", "o:1")); r.Err != nil {
		t.Error(r.Err)
	}
	mustGrant(t, do(t, n, acquire("k", "o:2")))
	if heard := f.commands(); len(heard) != 3 || !isRelease(heard[1]) {
		t.Errorf("heard %q: want the release twice and then the acquire", heard)
	}
}

// What is owed stays owed while the server refuses it.
func TestAReleaseThatIsOwedAndRefusedStaysOwed(t *testing.T) {
	var up, refused atomic.Bool
	f := startFake(t, func(args []string) string {
		if !up.Load() {
			return hangUp
		}
		if reply, ok := greeting(args); ok {
			return reply
		}
		if isRelease(args) && !refused.Swap(true) {
			return "-BUSY Redis is busy running a script\r\n"
		}
		return ":1\r\n"
	})
	n := open(t, f.url())
	mustFail(t, n, do(t, n, release("k", "o:1")).Err, node.ErrDown)
	up.Store(true)
	eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:2"))) })
	if heard := f.commands(); len(heard) != 3 || !isRelease(heard[1]) {
		t.Errorf("heard %q: want the release twice and then the acquire", heard)
	}
}
