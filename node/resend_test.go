package node_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// tombstoneOf returns the time to live, in ms, of the tombstone that a release sets; "0" for none.
func tombstoneOf(args []string) string { return args[len(args)-1] }

// withTombstone is the tombstoneOf of a release that sets one.
var withTombstone = fmt.Sprint(node.DefaultMaxLease.Milliseconds())

func TestAReleaseOfAnUncutAcquireLeavesNoTombstone(t *testing.T) {
	f, n := replying(t, ":1\r\n")
	footprint := new(pipeline.Footprint)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), footprint)))
	testkit.Must(t, await(t, start(n, "key", release("k", "o:1"), footprint)).Err)
	testkit.Equal(t, tombstoneOf(f.commands()[1]), "0", "the release's tombstone")
}

// The old connection may still carry out the acquire that was cut off. The release must bar it.
func TestAReleaseAfterACutAcquireLeavesATombstone(t *testing.T) {
	f, n := replying(t, canned.HangUp, ":1\r\n")
	footprint := new(pipeline.Footprint)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), footprint)))
	lowered := scripts.Release(testkit.Names("k"), scripts.OwnerOf("o:1"), 1)
	testkit.Must(t, await(t, start(n, "key", lowered, footprint)).Err)
	testkit.Must(t, await(t, start(n, "key", release("k", "o:1"), footprint)).Err)
	received := f.commands()
	testkit.Check(t, len(received) == 4 && tombstoneOf(received[2]) == "0" && tombstoneOf(received[3]) == withTombstone,
		"received %q: want the acquire twice, a release without a tombstone, as the owner goes on, and one with", received)
}

// A release whose script the server does not know is resent as text, also after its footprint was
// abandoned.
func TestAnUnknownScriptIsResentForAReleaseOfAnAbandonedFootprint(t *testing.T) {
	_, n := openFake(t, admittedMaster(grantingText))
	footprint := new(pipeline.Footprint)
	mustGrant(t, await(t, start(n, "key", acquire("k", "o:1"), footprint)))
	footprint.Abandon()
	testkit.Must(t, await(t, start(n, "key", release("k", "o:1"), footprint)).Err)
}

// An owed release reaches a server that does not know the scripts by their hashes.
func TestAnOwedReleaseReachesAServerWithoutScripts(t *testing.T) {
	var up atomic.Bool
	f, n := openFake(t, onceUp(&up, grantingText))
	if r := do(t, n, release("k", "o:1")); r.Err == nil {
		t.Fatalf("a server that hangs up answers %v", r.Reply)
	}
	up.Store(true)
	testkit.Eventually(t, "the release carried out", func() bool {
		return slices.ContainsFunc(f.commands(), func(args []string) bool { return args[0] == "EVAL" && isRelease(args) })
	})
}

// Requests of a connection that died are resent before those still queued, in the order of their
// starts.
func TestResentRequestsKeepTheirOrder(t *testing.T) {
	full := make(chan struct{})
	var cut atomic.Bool
	f, n := openFake(t, admittedMaster(func([]string) string {
		if !cut.Swap(true) {
			<-full
			return canned.HangUp
		}
		return ":1\r\n"
	}), node.WithTimeout(bound))
	answers := []answer{start(n, "key", acquire("0", "o:1"), nil)}
	testkit.Eventually(t, "the first sent", func() bool { return len(f.commands()) == 1 })
	for i := range 32 { // more than the sockets buffer: some are written, some wait
		owner := fmt.Sprint("o:", i, strings.Repeat("x", 1<<19))
		answers = append(answers, start(n, "key", acquire(fmt.Sprint(i+1), owner), nil))
	}
	close(full)
	for _, a := range answers {
		mustGrant(t, await(t, a))
	}
	for i, args := range f.commands()[1:] {
		if name := args[6]; name != fmt.Sprint(i) {
			t.Fatalf("%s came as number %d", name, i)
		}
	}
}

// onceUp hangs up on every command until up is set.
func onceUp(up *atomic.Bool, handle func(args []string) string) func(args []string) string {
	answer := admittedMaster(handle)
	return func(args []string) string {
		if !up.Load() {
			return canned.HangUp
		}
		return answer(args)
	}
}

func granting([]string) string { return ":1\r\n" }

func grantingText(args []string) string {
	if args[0] == "EVALSHA" {
		return "-NOSCRIPT No matching script\r\n"
	}
	return ":1\r\n"
}

// While a node is down, only each owner's last release is owed.
func TestOnlyEachOwnersLastReleaseIsOwed(t *testing.T) {
	var up atomic.Bool
	f, n := openFake(t, onceUp(&up, granting))
	first, second := new(pipeline.Footprint), new(pipeline.Footprint)
	for depth := 3; depth >= 0; depth-- {
		call := scripts.Release(testkit.Names("k"), scripts.OwnerOf("o:1"), depth)
		mustFail(t, n, await(t, start(n, "key", call, first)).Err, node.ErrDown)
	}
	mustFail(t, n, await(t, start(n, "key", release("k", "o:2"), second)).Err, node.ErrDown)
	mustFail(t, n, await(t, start(n, "key", release("k", "o:3"), nil)).Err, node.ErrDown)
	mustFail(t, n, await(t, start(n, "key", release("k", "o:4"), nil)).Err, node.ErrDown)
	up.Store(true)
	testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:5"))) })
	received := map[string]string{}
	for _, args := range f.commands() {
		if isRelease(args) {
			owner, depth := args[5], args[6]
			received[owner] += depth
		}
	}
	testkit.Check(t, maps.Equal(received, map[string]string{"o:1": "0", "o:2": "0", "o:3": "0", "o:4": "0"}),
		"the levels released, by owner, are %v: want a 0 of each of four", received)
}

// Owed releases are delivered in the order of their starts, over all chunks.
func TestOwedReleasesKeepTheirOrder(t *testing.T) {
	var up atomic.Bool
	f, n := openFake(t, onceUp(&up, granting))
	const many = 300
	for i := range many {
		r := await(t, start(n, "key", release("k", fmt.Sprint("o:", i)), new(pipeline.Footprint)))
		mustFail(t, n, r.Err, node.ErrDown)
	}
	up.Store(true)
	testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:last"))) })
	received := f.commands()
	if len(received) != many+1 {
		t.Fatalf("received %d commands, want %d releases and the acquire", len(received), many)
	}
	for i, args := range received[:many] {
		if want := fmt.Sprint("o:", i); !isRelease(args) || args[5] != want {
			t.Fatalf("command %d is %q, want the release of %s", i, args[3:], want)
		}
	}
}

// A release that becomes owed during the delivery of owed releases is delivered before any new
// call: a later release of an owner in delivery, and a release of another owner.
func TestReleasesOwedDuringDeliveryAreDeliveredFirst(t *testing.T) {
	var up atomic.Bool
	paying, more := make(chan struct{}), make(chan struct{})
	f, n := openFake(t, onceUp(&up, func(args []string) string {
		if isRelease(args) && args[6] == "1" {
			close(paying)
			<-more
		}
		return ":1\r\n"
	}), node.WithTimeout(bound))
	first, second := new(pipeline.Footprint), new(pipeline.Footprint)
	lowered := scripts.Release(testkit.Names("k"), scripts.OwnerOf("o:1"), 1)
	mustFail(t, n, await(t, start(n, "key", lowered, first)).Err, node.ErrDown)
	up.Store(true)
	<-paying
	mustFail(t, n, await(t, start(n, "key", release("k", "o:1"), first)).Err, node.ErrDown)
	mustFail(t, n, await(t, start(n, "key", release("k", "o:2"), second)).Err, node.ErrDown)
	close(more)
	testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:3"))) })
	received := f.commands()
	testkit.Check(t, len(received) == 4 && received[1][5]+received[1][6] == "o:10" &&
		received[2][5]+received[2][6] == "o:20",
		"received %q: want the release that was owed, those that became owed, and then the acquire", received)
}

// An acquire was cut off and waits for a connection that is never made. It may have been carried
// out.
func TestACutAcquireCountsAsSentWhenTheMasterGoesDown(t *testing.T) {
	var up atomic.Bool
	up.Store(true)
	_, n := openFake(t, onceUp(&up, func([]string) string {
		up.Store(false)
		return canned.HangUp
	}))
	r := await(t, start(n, "key", acquire("k", "o:1"), new(pipeline.Footprint)))
	mustFail(t, n, r.Err, node.ErrDown)
	testkit.Check(t, r.Sent && r.Resent, "sent %v, resent %v: it may have been carried out", r.Sent, r.Resent)
}

// The first copy of a resent request may still be granted, so a refusal reports that the request
// was resent, and proves nothing.
func TestARefusalReportsThatItsRequestWasResent(t *testing.T) {
	const held = "*4\r\n$4\r\nheld\r\n:1000\r\n:0\r\n$3\r\nr:1\r\n"
	for what, c := range map[string]struct {
		replies []string
		want    scripts.Outcome
		resent  bool
	}{
		"once":                            {[]string{held}, scripts.HeldByAnother, false},
		"cut":                             {[]string{canned.HangUp, held}, scripts.HeldByAnother, true},
		"not accepted":                    {[]string{notAccepted}, scripts.NotAccepted, false},
		"cut, and not accepted":           {[]string{canned.HangUp, notAccepted}, scripts.NotAccepted, true},
		"cut, and forbidden":              {[]string{canned.HangUp, "-NOPERM No permissions to access a key\r\n"}, 0, true},
		"cut, and in quarantine":          {[]string{canned.HangUp, array("quarantined", 500)}, scripts.Quarantined, true},
		"not known by its hash, then cut": {[]string{"-NOSCRIPT No matching script\r\n", canned.HangUp, held}, scripts.HeldByAnother, true},
	} {
		t.Run(what, func(t *testing.T) {
			_, n := replying(t, c.replies...)
			r := await(t, start(n, "key", acquire("k", "o:1"), new(pipeline.Footprint)))
			reply := outcome(r)
			testkit.Check(t, reply.Outcome == c.want && r.Resent == c.resent && !r.NothingDone,
				"the answer is %v, %v, resent %v; want %v, resent %v", r.Reply, r.Err, r.Resent, c.want, c.resent)
		})
	}
}

// A busy server refuses a release, also one that is owed. It is sent again before any other call.
func TestAReleaseRefusedByABusyServerIsResentFirst(t *testing.T) {
	for what, isOwed := range map[string]bool{"sent": false, "owed": true} {
		t.Run(what, func(t *testing.T) {
			var up, refused atomic.Bool
			up.Store(!isOwed)
			f, n := openFake(t, onceUp(&up, func(args []string) string {
				if isRelease(args) && !refused.Swap(true) {
					return "-BUSY Redis is busy running a script\r\n"
				}
				return ":1\r\n"
			}))
			if err := do(t, n, release("k", "o:1")).Err; isOwed {
				mustFail(t, n, err, node.ErrDown)
			} else {
				testkit.Must(t, err)
			}
			up.Store(true)
			testkit.Eventually(t, "granted", func() bool { return isGranted(do(t, n, acquire("k", "o:2"))) })
			received := f.commands()
			testkit.Check(t, len(received) == 3 && isRelease(received[1]),
				"received %q: want the release twice and then the acquire", received)
		})
	}
}
