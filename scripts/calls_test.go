package scripts_test

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// A call goes to many nodes, and may be resent, each time with the arguments of that connection.
func TestSendingDoesNotChangeACall(t *testing.T) {
	call := acquire()
	_, first := call.Command(nil, true, scripts.ConnArgs{Expected: "first", Tombstone: scripts.NoTombstone})
	_, second := call.Command(nil, false, scripts.ConnArgs{Expected: "second", Tombstone: scripts.NoTombstone})
	testkit.Check(t, first[len(first)-1] == "first" && second[len(second)-1] == "second",
		"the expected lines sent are %v and %v", first[len(first)-1], second[len(second)-1])
	source, sha := first[0].(string), second[0].(string)
	testkit.Check(t, len(sha) == 40 && len(source) >= 100, "EVAL is sent %q, EVALSHA %q", source, sha)

	release := scripts.Release(testkit.Names("k"), scripts.OwnerOf(me), 0)
	_, barred := release.Command(nil, false, scripts.ConnArgs{Tombstone: int64(5)})
	_, plain := release.Command(nil, false, scripts.ConnArgs{Tombstone: scripts.NoTombstone})
	testkit.Check(t, barred[len(barred)-1] == int64(5), "the tombstone's time is %v", barred[len(barred)-1])
	testkit.Check(t, len(plain) == 5, "without a tombstone, in its short form: %v", plain) // hash, 1, key, owner, channel
	two := scripts.Release(testkit.Names("k", "l"), scripts.OwnerOf(me), 0)
	_, plain = two.Command(nil, false, scripts.ConnArgs{Tombstone: scripts.NoTombstone})
	testkit.Check(t, plain[len(plain)-1] == "0", "two names without a tombstone: %v", plain)
	dst := append(make([]any, 0, 40), "before")
	_, args := release.Command(dst, true, scripts.ConnArgs{Tombstone: int64(5)})
	testkit.Check(t, args[0] == "before" && args[1] != plain[0], "appended to what was there: %v", args[:2])
}

func TestKindsOfCalls(t *testing.T) {
	for want, call := range map[string]scripts.Call{
		"acquire": acquire(),
		"read":    asReader(),
		"renew":   scripts.Renew(ours, scripts.ToMillis(lease), threeLocks),
		"release": scripts.Release(testkit.Names("k"), scripts.OwnerOf(me), 0),
		"raise":   scripts.Raise(testkit.Names("k"), scripts.OwnerOf(me), 1),
		"inspect": operators.Inspect(scripts.NewName("k")),
		"force":   operators.Force(scripts.NewName("k"), nil, 0, time.Second),
		"look":    scripts.Look(),
		"slots":   semaphores.Slots("k", 3),
		"mark":    scripts.Mark(scripts.Seen{}, scripts.Marker{Members: ours, Next: none}, scripts.In(0), scripts.In(0), 0),
	} {
		testkit.Check(t, call.Op() == want && call.IsAcquire() == (want == "acquire" || want == "read") &&
			call.Frees() == (want == "release"), "%s: Op %q, IsAcquire %v, Frees %v", want, call.Op(), call.IsAcquire(), call.Frees())
	}
	testkit.Check(t, !scripts.Release(testkit.Names("k"), scripts.OwnerOf(me), 2).Frees(),
		"a release that leaves a depth frees the lock")
}

// A lease rounded down would end on the node before it ends for its holder.
func TestLeasesAreRoundedUp(t *testing.T) {
	for asked, want := range map[time.Duration]int64{
		5 * time.Millisecond: 5, 5*time.Millisecond + 1: 6, 6*time.Millisecond - 1: 6, 1: 1, 0: 0,
	} {
		call := acquire(func(a *scripts.AcquireArgs) { a.Lease = scripts.ToMillis(asked) })
		_, args := call.Command(nil, false, scripts.ConnArgs{})
		testkit.Equal(t, args[6], any(want), asked) // after sha, 4, four keys
	}
}

// A release needs one allocation, for its arguments: none that is outgrown.
func TestAReleaseAllocatesItsArgumentsOnce(t *testing.T) {
	for _, names := range [][]scripts.Name{testkit.Names("k"), testkit.Names("k", "l", "m")} {
		owner := scripts.OwnerOf(me)
		n := testing.AllocsPerRun(100, func() { scripts.Release(names, owner, 0) })
		testkit.Equal(t, n, 1, fmt.Sprintf("allocations for a release of %d names", len(names)))
	}
}

// The log of a release has its names, and not the reservations that go with it.
func TestWhatIsReleased(t *testing.T) {
	for what, release := range map[string]func([]scripts.Name, scripts.Owner) scripts.Call{
		"a release":    func(names []scripts.Name, owner scripts.Owner) scripts.Call { return scripts.Release(names, owner, 0) },
		"a withdrawal": scripts.Withdraw,
	} {
		owner, names := release(testkit.Names("k", "l"), scripts.OwnerOf(me)).Released()
		testkit.Check(t, owner == me && slices.Equal(names, []string{"k", "l"}), "%s is of %q, of %q", what, names, owner)
	}
}

// An error names a script and a line: the commands there are what a user may lack.
func TestCommandsOfALine(t *testing.T) {
	for _, s := range scripts.All() {
		lines := strings.Split(s.Source(), "\n")
		for _, line := range []int{-1, 0, len(lines) + 1} {
			testkit.Check(t, scripts.CommandsAt(s.SHA().(string), line) == nil, "%s has commands in line %d", s.Name(), line)
		}
		if s.Name() != "releases" {
			continue
		}
		at := 1 + slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "'HDEL'") })
		testkit.Equal(t, fmt.Sprint(scripts.CommandsAt(s.SHA().(string), at), scripts.CommandsAt(s.SHA().(string), 1)), "[HDEL] []", "the commands")
		testkit.Check(t, scripts.CommandsAt("x", at) == nil, "an unknown script has commands")
	}
}

func TestDigests(t *testing.T) {
	for _, s := range scripts.All() {
		digest := fmt.Sprintf("%x", sha1.Sum([]byte(s.Source())))
		testkit.Check(t, s.SHA() == any(digest), "the script %s has changed. Its digest is %s", s.Name(), digest)
	}
}

// A locker that may hold has written its identity a max lease and 15 s ago at most.
func TestWhichLockersMayHold(t *testing.T) {
	const maxLease = 30 * time.Second
	for left, want := range map[time.Duration]bool{75 * time.Second: true, 30 * time.Second: true, 29 * time.Second: false} {
		testkit.Equal(t, operators.Introduced{Left: left}.MayHold(maxLease), want, left)
	}
	testkit.Equal(t, operators.Introduced{Left: 70 * time.Second}.Age(maxLease), 5*time.Second, "its age")
}

// An owner is what shape.lua takes for one.
func TestOwners(t *testing.T) {
	for text, want := range map[string]bool{"L:1": true, "a:b:12": true, strings.Repeat("x", 1022) + ":1": true, strings.Repeat("x", 1023) + ":1": false,
		"": false, "L": false, "L:": false, ":1": false, "1": false, "LL1": false, "L:1 ": false} {
		testkit.Check(t, operators.ValidOwner(text) == want, "%.40q is an owner: %v", text, !want)
	}
}

// A label that a terminal would not show is none.
func TestLabels(t *testing.T) {
	for text, want := range map[string]bool{"": true, "a é": true, "a\n": false, "\xff": false, "\ufffd": false,
		strings.Repeat("x", 255): true, strings.Repeat("x", 256): false} {
		testkit.Check(t, scripts.ValidLabel(text) == want, "%.40q is a label: %v", text, !want)
	}
}

// A counter that is no token stops who copies it to other masters.
func TestCountersThatAreNotCopied(t *testing.T) {
	const most = scripts.MaxToken - 1<<40
	for text, want := range map[string]string{
		fmt.Sprint(most):       "",
		fmt.Sprint(most + 1):   "the token counter team:quorumlock:counter:1025 is at 4502500115742720, within 2^40",
		"x":                    `the token counter team:quorumlock:counter:1025 is "x", and no whole number`,
		"18446744073709551616": "no whole number",
		"-1":                   "no whole number",
	} {
		c := new(operators.Counters)
		err := c.Add(1, []operators.Counter{{Place: 2, Text: text}}, "team:")
		testkit.Check(t, (err == nil) == (want == "") && strings.Contains(fmt.Sprint(err), want), "%s: %v", text, err)
		testkit.Check(t, err != nil || c[1025] == most, "%s: %d", text, c[1025])
	}
}

// Counters of several masters: each gets the highest, by calls of 1024.
func TestCountersAreRaised(t *testing.T) {
	one, other := operators.Counters{5, 7}, operators.Counters{6, 3, 1}
	one.Raise(&other)
	testkit.Equal(t, one, operators.Counters{6, 7, 1}, "the highest")
	testkit.Equal(t, len(one.Above(&other)), 1, "calls for one that is lower")
	testkit.Equal(t, len(one.Above(&one)), 0, "calls for none")
	for number := range one {
		one[number] = 8
	}
	testkit.Equal(t, len(one.Above(&other)), 64, "calls for all")
}

const lockerKey = "quorumlock:locker:"

func TestLockerOf(t *testing.T) {
	for owner, locker := range map[string]string{"L:1": "L", "L:1:2": "L:1", ":7": "", "": "", "L": "L"} {
		testkit.Equal(t, scripts.LockerOf(owner), locker, owner)
	}
}
