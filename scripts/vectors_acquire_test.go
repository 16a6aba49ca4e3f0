package scripts_test

import (
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	lease    = 10 * time.Second
	maxLease = 30 * time.Second
	seed     = 100

	me     = "locker:1"
	rival  = "locker:2"
	marker = "quorumlock:marker"
	tomb   = "quorumlock:released:" + me

	// noLock is part of the error for a hash of an application.
	noLock = "QUORUMLOCK the key"
)

// ready is the marker of a node that has granted since its quarantine.
var ready = markerOf(admitted(0, true))

// The lists of masters: the client's, and one that differs by one member.
var (
	ours   = scripts.NewList("a", "b", "c")
	theirs = scripts.NewList("a", "b", "d")
	none   = scripts.NewList()
)

// admitted returns the marker of the vectors' process with the client's list, as altered by the
// changes. It grants after so long from now; always says that it has granted for long.
func admitted(in time.Duration, always bool, changes ...func(*scripts.Marker)) func(time.Duration) string {
	return func(now time.Duration) string {
		m := scripts.Marker{Process: process, Admitted: now + in, Generation: 3, Members: ours, Next: none}
		if always {
			m.Admitted = 0
		}
		for _, change := range changes {
			change(&m)
		}
		return m.String()
	}
}

func of(run string) func(*scripts.Marker) { return func(m *scripts.Marker) { m.Run = run } }

func markerOf(text func(now time.Duration) string) []any { return []any{"SET", marker, text} }

func holds(name, owner, depth string) []any { return []any{"HSET", name, owner, depth} }

func expire(key string, d time.Duration) []any { return []any{"PEXPIRE", key, d.Milliseconds()} }

func counted(name, value string) []any { return []any{"SET", counterOf(name), value} }

func counterOf(name string) string { return scripts.NewName(name).Counter() }

// tooHigh is the error of a counter that no lock has brought where it is.
func tooHigh(name string) string {
	return `QUORUMLOCK the token counter "` + counterOf(name) + `" has reached 2^52: no lock counts that far. Delete the key on this master`
}

// near and its neighbour share a counter, which no other name of the vectors has.
const near, neighbour = "stock:45", "stock:339"

func state(commands ...[]any) [][]any { return commands }

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

func carrying(token uint64) asking { return func(a *scripts.AcquireArgs) { a.Token = token } }

func depth(n int) asking { return func(a *scripts.AcquireArgs) { a.Depth = n } }

func seeded(seed uint64) asking { return func(a *scripts.AcquireArgs) { a.Seed = seed } }

func granted(token uint64) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.Granted, Token: token}
}

func held(wait time.Duration) scripts.AcquireReply { return heldBy(rival, wait) }

func heldBy(owner string, wait time.Duration) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: wait, Holder: owner}
}

func quarantined(wait time.Duration) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.Quarantined, Wait: wait}
}

// notAccepted is the reply of a node whose marker does not accept the client: some marker, or none.
func notAccepted(marker string) scripts.AcquireReply {
	return scripts.AcquireReply{Outcome: scripts.NotAccepted, NotAccepted: &scripts.Refusal{Marker: marker, Process: process}}
}

// some stands for a marker in notAccepted.
const some = "some marker"

func forAcquire(list []vector) []vector {
	for i := range list {
		list[i].parse = func(v any) (any, error) {
			parsed, err := typed(acquire(), v)
			reply, _ := parsed.(scripts.AcquireReply)
			if reply.NotAccepted != nil && reply.NotAccepted.Marker != "" {
				reply.NotAccepted.Marker = some
			}
			return reply, err
		}
	}
	return list
}

func acquireVectors() []vector {
	taken := state(ready, holds("k", rival, "1"), expire("k", 5*time.Second), counted("k", "7"))
	mine := func(depth string, d time.Duration, token string) [][]any {
		return state(ready, holds("k", me, depth), expire("k", d), counted("k", token))
	}
	two := named("k", "l")
	return forAcquire([]vector{
		{name: "fresh", before: state(ready), call: acquire(), want: granted(seed), twice: true,
			after: []check{hash("k", me, "1"), ttl("k", lease), counter("k", "100"), absent(tomb)}},
		{name: "fresh at the depth asked for", before: state(ready), call: acquire(depth(3)), want: granted(seed),
			after: []check{hash("k", me, "3")}},

		{name: "held", before: taken, call: acquire(), want: held(5 * time.Second), untouched: true, twice: true},
		{name: "held, with a waiter", before: state(ready, holds("awaited", rival, "1"), expire("awaited", lease)),
			call: acquire(named("awaited", "k")), want: scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: lease, Waiting: 1, Holder: rival}, untouched: true},
		{name: "held, a slot, with a waiter for the semaphore", before: state(ready, holds(crowdedSlot, rival, "1"), expire(crowdedSlot, lease)),
			call: acquire(named(crowdedSlot)), want: scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: lease, Waiting: 1, Holder: rival}, untouched: true},
		{name: "held, with a waiter for another name", before: taken, call: acquire(named("k", "awaited")), want: held(5 * time.Second)},
		{name: "held, token carried", before: taken, call: acquire(carrying(9)), want: held(5 * time.Second), untouched: true},
		{name: "held without a time to live", before: state(ready, holds("k", rival, "1")), call: acquire(),
			want: held(-1), untouched: true},
		{name: "held by a Redisson client", before: state(ready, holds("k", "8743c9c0-0795-4907-87fd-6c719a6b4586:17", "2"), expire("k", lease)),
			call: acquire(), want: heldBy("8743c9c0-0795-4907-87fd-6c719a6b4586:17", lease), untouched: true},
		{name: "held by an owner of any form, with a time to live", before: state(ready, holds("k", "somebody", "1"), expire("k", lease)), call: acquire(),
			want: heldBy("somebody", lease), untouched: true},
		{name: "held by an owner that is too long", before: state(ready, holds("k", strings.Repeat("x", 5000), "1"), expire("k", lease)), call: acquire(),
			want: heldBy(strings.Repeat("x", 1024), lease), untouched: true},

		{name: "a hash of an application's", before: state(ready, holds("k", "name", "bob")), call: acquire(), err: noLock, untouched: true},
		{name: "a hash of an application's, with a number", before: state(ready, holds("k", "visits", "17")), call: acquire(), err: noLock,
			untouched: true},
		{name: "a hash of an application's, with fields like owners", before: state(ready, holds("k", rival, "bob")), call: acquire(),
			err: noLock, untouched: true},
		{name: "a hash of several fields", before: state(ready, []any{"HSET", "k", rival, "1", "locker:3", "1"}), call: acquire(), err: noLock,
			untouched: true},
		{name: "a hash of several fields, for a while", before: state(ready, []any{"HSET", "k", "a", "1", "b", "2"}, expire("k", lease)),
			call: acquire(), err: noLock, untouched: true},
		{name: "a hash of an application's at the second name", before: state(ready, holds("l", "name", "bob")), call: acquire(two),
			err: noLock, untouched: true},
		{name: "a hash of an application's, for a repair", before: state(ready, holds("k", "name", "bob")), call: acquire(carrying(7)),
			err: noLock, untouched: true},
		{name: "a hash of an application's, at a name byte for byte", before: state(ready, holds("a\x00\r\nb", "name", "bob")),
			call: acquire(named("a\x00\r\nb")), err: `QUORUMLOCK the key "a???b" holds`, untouched: true},
		{name: "re-entry next to fields of others", before: state(ready, []any{"HSET", "k", me, "1", "name", "bob"}, expire("k", lease)),
			call: acquire(carrying(7), depth(2)), want: granted(7), after: []check{hash("k", me, "2", "name", "bob"), ttl("k", lease)}},

		{name: "re-entry sets the depth", before: mine("1", time.Second, "7"), call: acquire(depth(2), carrying(7)),
			want: granted(7), twice: true, after: []check{hash("k", me, "2"), ttl("k", lease), counter("k", "7")}},
		{name: "re-entry does not add to the depth", before: mine("4", time.Second, "7"), call: acquire(depth(2), carrying(7)),
			want: granted(7), after: []check{hash("k", me, "2")}},
		{name: "a retry does not count up", before: mine("1", time.Second, "700"), call: acquire(), want: granted(700),
			twice: true, after: []check{hash("k", me, "1"), ttl("k", lease), counter("k", "700")}},
		{name: "never shortens the time to live", before: mine("1", time.Minute, "700"), call: acquire(), want: granted(700),
			after: []check{ttl("k", time.Minute)}},
		// The key outlives any lease: a holder may rely on a longer one.
		{name: "a key without a time to live gets none", before: state(ready, holds("k", me, "1"), counted("k", "7")), call: acquire(carrying(7)),
			want: granted(7), after: []check{ttl("k", -1), counter("k", "7")}},
		{name: "two names, one mine without a time to live, the other free", before: state(ready, holds("k", me, "1")),
			call: acquire(two, carrying(7)), want: granted(7), after: []check{ttl("k", -1), hash("l", me, "1"), ttl("l", lease)}},

		{name: "seed above the counter", before: state(ready, counted("k", "50")), call: acquire(), want: granted(seed),
			after: []check{counter("k", "100")}},
		{name: "seed one above the counter", before: state(ready, counted("k", "99")), call: acquire(), want: granted(seed)},
		{name: "seed at the counter", before: state(ready, counted("k", "100")), call: acquire(), want: granted(101),
			after: []check{counter("k", "101")}},
		{name: "seed below the counter", before: state(ready, counted("k", "5000")), call: acquire(), want: granted(5001),
			after: []check{counter("k", "5001")}},
		{name: "tokens of our time", before: state(ready, counted("k", "1800000000000001")), call: acquire(seeded(1800000000000000)),
			want: granted(1800000000000002), after: []check{counter("k", "1800000000000002")}},
		{name: "the highest token", before: state(ready, counted("k", "4503599627370494")), call: acquire(),
			want: granted(1<<52 - 1), after: []check{counter("k", "4503599627370495")}},
		{name: "no token left", before: state(ready, counted("k", "4503599627370495")), call: acquire(), err: tooHigh("k"), untouched: true},
		{name: "no token left for one of two", before: state(ready, counted("l", "4503599627370495")), call: acquire(two),
			err: tooHigh("l"), untouched: true},
		{name: "a counter that no lock reaches", before: state(ready, counted("k", "9007199254740990")), call: acquire(), err: tooHigh("k"),
			untouched: true},
		{name: "a counter that no lock reaches, held", before: state(ready, holds("k", rival, "1"), expire("k", lease), counted("k", "9007199254740990")), call: acquire(), want: held(lease),
			untouched: true},
		{name: "a counter that no lock reaches, entered again", before: mine("1", lease, "9007199254740990"), call: acquire(carrying(7), depth(2)),
			err: tooHigh("k"), untouched: true},
		{name: "a counter that no lock reaches, repaired", before: state(ready, counted("k", "9007199254740990")), call: acquire(carrying(7)),
			err: tooHigh("k"), untouched: true},
		{name: "counter is text", before: state(ready, counted("k", "seven")), call: acquire(), err: "QUORUMLOCK", untouched: true},
		{name: "counter is text, and is named", before: state(ready, counted("a", "seven")), call: acquire(named("a")),
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`, untouched: true},
		{name: "counter is empty", before: state(ready, counted("k", "")), call: acquire(), err: "QUORUMLOCK", untouched: true},
		{name: "counter is nan", before: state(ready, counted("k", "nan")), call: acquire(), err: "QUORUMLOCK", untouched: true},
		{name: "counter is beyond all bounds", before: state(ready, counted("k", "1e300")), call: acquire(), err: "QUORUMLOCK", untouched: true},
		{name: "counter is negative", before: state(ready, counted("k", "-5")), call: acquire(), want: granted(seed)},
		{name: "token carried raises the counter", before: mine("1", lease, "7"), call: acquire(carrying(500), depth(2)),
			want: granted(500), after: []check{counter("k", "500")}},
		{name: "token carried does not lower the counter", before: mine("1", lease, "700"), call: acquire(carrying(5), depth(2)),
			want: granted(700), after: []check{counter("k", "700")}},
		{name: "a repair keeps its token", before: state(ready, counted("k", "7")), call: acquire(carrying(500), depth(2)),
			want: granted(500), after: []check{hash("k", me, "2"), ttl("k", lease), counter("k", "500")}},
		{name: "the seed does not change a token carried", before: state(ready), call: acquire(carrying(50)), want: granted(50),
			after: []check{counter("k", "50")}},

		{name: "two names, one token", before: state(ready, counted("k", "200"), counted("l", "300")), call: acquire(two),
			want: granted(301), twice: true,
			after: []check{hash("k", me, "1"), hash("l", me, "1"), ttl("k", lease), ttl("l", lease), counter("k", "301"), counter("l", "301")}},
		{name: "two names, the higher counter first", before: state(ready, counted("k", "300"), counted("l", "200")), call: acquire(two),
			want: granted(301), after: []check{counter("k", "301"), counter("l", "301")}},
		{name: "two names, the first held", before: taken, call: acquire(two), want: held(5 * time.Second), untouched: true},
		{name: "two names, the last held", before: taken, call: acquire(named("l", "k")), want: held(5 * time.Second), untouched: true},
		{name: "three names, two held, the longer wait", untouched: true,
			before: state(ready, holds("k", rival, "1"), expire("k", 5*time.Second), holds("l", rival, "1"), expire("l", 8*time.Second)),
			call:   acquire(named("l", "m", "k")), want: held(8 * time.Second)},
		{name: "three names, two held, the longer wait last", untouched: true,
			before: state(ready, holds("k", rival, "1"), expire("k", 5*time.Second), holds("l", rival, "1"), expire("l", 8*time.Second)),
			call:   acquire(named("k", "m", "l")), want: held(8 * time.Second)},
		{name: "two names held, the first for ever", untouched: true, call: acquire(two), want: held(-1),
			before: state(ready, holds("k", rival, "1"), holds("l", rival, "1"), expire("l", lease))},
		{name: "two names held, the last for ever", untouched: true, call: acquire(two), want: held(-1),
			before: state(ready, holds("l", rival, "1"), holds("k", rival, "1"), expire("k", lease))},
		{name: "two names, held by two", untouched: true, call: acquire(two), want: heldBy(rival, 8*time.Second),
			before: append(taken[:len(taken):len(taken)], holds("l", "locker:3", "1"), expire("l", 8*time.Second))},
		{name: "two names, one mine and one held", untouched: true, call: acquire(two, carrying(7)), want: held(5 * time.Second),
			before: state(ready, holds("k", me, "1"), expire("k", lease), holds("l", rival, "1"), expire("l", 5*time.Second))},
		{name: "two names, one mine and one free, counts up", before: mine("1", lease, "700"), call: acquire(two), want: granted(701),
			after: []check{hash("l", me, "1"), counter("k", "701"), counter("l", "701")}},

		{name: "two names, one mine for longer, the other free", before: mine("1", time.Minute, "7"), call: acquire(two, carrying(7)),
			want: granted(7), after: []check{ttl("k", time.Minute), hash("l", me, "1"), ttl("l", lease)}},

		{name: "already released", before: state(ready, []any{"SET", tomb, "1"}), call: acquire(), untouched: true, twice: true,
			want: scripts.AcquireReply{Outcome: scripts.Barred}},
		{name: "already released, and still there", before: append(mine("1", lease, "7"), []any{"SET", tomb, "1"}),
			call: acquire(carrying(7)), untouched: true, want: scripts.AcquireReply{Outcome: scripts.Barred}},
		{name: "another owner had released", before: state(ready, []any{"SET", tomb + "1", "1"}), call: acquire(), want: granted(seed)},

		{name: "a string at the name", before: state(ready, []any{"SET", "k", "text"}), call: acquire(), err: "WRONGTYPE", untouched: true},
		{name: "a list at the second name", before: state(ready, []any{"RPUSH", "l", "x"}), call: acquire(two), err: "WRONGTYPE", untouched: true},
		{name: "a list at the counter", before: state(ready, []any{"RPUSH", counterOf("a"), "x"}), call: acquire(named("a")),
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`, untouched: true},
		{name: "a list at the second counter", before: state(ready, []any{"RPUSH", counterOf("l"), "x"}), call: acquire(two),
			err: "QUORUMLOCK", untouched: true},

		{name: "counts up from a neighbour's grant", before: state(ready, holds(neighbour, rival, "1"), counted(neighbour, "300")),
			call: acquire(named(near)), want: granted(301), twice: true,
			after: []check{hash(near, me, "1"), hash(neighbour, rival, "1"), counter(near, "301")}},
		{name: "a retry after a neighbour's grant", call: acquire(named(near)), want: granted(300), twice: true,
			before: state(ready, holds(near, me, "1"), expire(near, lease), counted(neighbour, "300")),
			after:  []check{counter(near, "300")}},
		{name: "a token carried, below a neighbour's", call: acquire(named(near), carrying(7)), want: granted(300),
			before: state(ready, counted(neighbour, "300")), after: []check{hash(near, me, "1"), counter(near, "300")}},
		{name: "two names of one counter", before: state(ready, counted(near, "300")), call: acquire(named(near, neighbour)),
			want: granted(301), twice: true, after: []check{hash(near, me, "1"), hash(neighbour, me, "1"), counter(near, "301")}},
		{name: "a counter that expires stays from now on", before: state(ready, counted("k", "300"), expire(counterOf("k"), lease)),
			call: acquire(), want: granted(301), after: []check{counter("k", "301")}},
		{name: "a hash at the marker", before: state([]any{"HSET", marker, "x", "y"}), call: acquire(), want: notAccepted(""), untouched: true},

		{name: "a name with a zero byte", before: state(ready), call: acquire(named("a\x00b")), want: granted(seed),
			after: []check{hash("a\x00b", me, "1"), counter("a\x00b", "100"), absent("a")}},
		{name: "a name with a new line", before: state(ready), call: acquire(named("a\r\nb")), want: granted(seed),
			after: []check{hash("a\r\nb", me, "1"), counter("a\r\nb", "100"), absent("a")}},
	})
}

func quarantineVectors() []vector {
	left := quarantined
	const always = true
	waiting := markerOf(admitted(20*time.Second, false))
	passed := markerOf(admitted(-time.Hour, false))
	return forAcquire([]vector{
		{name: "marker missing", call: acquire(), want: notAccepted(""), untouched: true, twice: true},
		{name: "marker of another process", before: state(markerOf(admitted(0, always, of("other")))), call: acquire(),
			want: notAccepted(some), untouched: true},
		{name: "marker of another database", before: state(markerOf(admitted(0, always, of(runID+"/2")))), call: acquire(),
			want: notAccepted(some), untouched: true},
		{name: "marker of another process, which waits", before: state(markerOf(admitted(lease, false, of("other")))), call: acquire(),
			want: notAccepted(some), untouched: true},
		{name: "marker with another max lease",
			before: state(markerOf(admitted(0, always, func(m *scripts.Marker) { m.MaxLease = time.Minute }))), call: acquire(),
			want: notAccepted(some), untouched: true},
		{name: "malformed marker", before: state([]any{"SET", marker, "soon"}), call: acquire(), want: notAccepted(some), untouched: true},
		{name: "marker with a word for a time", before: state([]any{"SET", marker, "x" + admitted(0, always)(0)}), call: acquire(),
			want: notAccepted(some), untouched: true},
		{name: "marker further ahead than max lease", before: state(markerOf(admitted(time.Hour, false))), call: acquire(),
			want: notAccepted(some), untouched: true},
		{name: "marker a little further ahead than max lease", before: state(markerOf(admitted(35*time.Second, false))),
			call: acquire(), want: notAccepted(some), untouched: true},
		{name: "quarantined", before: state(waiting), call: acquire(), want: left(20 * time.Second), untouched: true, twice: true},
		{name: "quarantined and held", before: state(waiting, holds("k", rival, "1"), expire("k", lease)), call: acquire(),
			want: left(20 * time.Second), untouched: true},
		{name: "quarantine just over", before: state(markerOf(admitted(0, false))), call: acquire(), want: granted(seed),
			after: []check{text(marker, admitted(0, always)(0))}},
		{name: "quarantine over and held", before: state(passed, holds("k", rival, "1"),
			expire("k", lease)), call: acquire(), want: held(lease), untouched: true},
		{name: "no repair in quarantine", before: state(waiting), call: acquire(carrying(7)), want: left(20 * time.Second), untouched: true},
		{name: "no repair without a marker", call: acquire(carrying(7)), want: notAccepted(""), untouched: true},
		{name: "no repair of one of two names in quarantine", before: state(waiting, holds("k", me, "1"), expire("k", lease)),
			call: acquire(named("k", "l"), carrying(7)), want: left(20 * time.Second), untouched: true},
		{name: "re-entry in quarantine", before: state(waiting, holds("k", me, "1"), expire("k", 5*time.Second)),
			call: acquire(carrying(7), depth(2)), want: granted(7),
			after: []check{hash("k", me, "2"), ttl("k", lease), counter("k", "7"), marked(20*time.Second, ours)}},
		{name: "no re-entry without a marker", before: state(holds("k", me, "1"), expire("k", 5*time.Second)), call: acquire(carrying(7), depth(2)),
			want: notAccepted(""), untouched: true},
		{name: "re-entry under the marker of an earlier process",
			before: state(markerOf(admitted(0, always, of("other"))), holds("k", me, "1"), expire("k", 5*time.Second)),
			call:   acquire(carrying(7), depth(2)), want: granted(7), after: []check{hash("k", me, "2"), ttl("k", lease)}},
		{name: "no re-entry under the marker of an earlier process with other members", untouched: true, want: notAccepted(some),
			before: state(markerOf(admitted(0, always, of("other"), theirMembers)), holds("k", me, "1"), expire("k", 5*time.Second)),
			call:   acquire(carrying(7), depth(2))},
		{name: "no repair under the marker of an earlier process", before: state(markerOf(admitted(0, always, of("other")))),
			call: acquire(carrying(7)), want: notAccepted(some), untouched: true},
		{name: "no repair of one of two names under the marker of an earlier process", untouched: true, want: notAccepted(some),
			before: state(markerOf(admitted(0, always, of("other"))), holds("k", me, "1"), expire("k", lease)),
			call:   acquire(named("k", "l"), carrying(7))},
		{name: "repair once the quarantine is over", before: state(passed), call: acquire(carrying(7)),
			want: granted(7), after: []check{hash("k", me, "1"), text(marker, admitted(0, always)(0))}},
		{name: "no retry in quarantine", before: state(waiting, holds("k", me, "1"), expire("k", lease)), call: acquire(),
			want: left(20 * time.Second), untouched: true},
	})
}

// The changes of a marker that make it accept clients with the list ours, or not.
var (
	theirMembers = func(m *scripts.Marker) { m.Members = theirs }
	oursNext     = func(m *scripts.Marker) { m.Members, m.Next = theirs, ours }
	theirsNext   = func(m *scripts.Marker) { m.Next = theirs }
	claimed      = func(m *scripts.Marker) { m.Claimed = true }
	claimedNext  = func(m *scripts.Marker) { m.Claimed, m.Members, m.Next = true, theirs, ours }
	unlisted     = func(m *scripts.Marker) { m.Members = none }
	anotherName  = func(m *scripts.Marker) { m.Member = "b" }
)

func listVectors() []vector {
	const always = true
	as := func(name string, change func(*scripts.Marker), want scripts.AcquireReply) vector {
		v := vector{name: name, before: state(markerOf(admitted(0, always, change))), call: acquire(), want: want}
		v.untouched = want.Outcome == scripts.NotAccepted
		return v
	}
	mine := func(change func(*scripts.Marker)) [][]any {
		return state(markerOf(admitted(0, always, change)), holds("k", me, "1"), expire("k", 5*time.Second), counted("k", "7"))
	}
	return forAcquire([]vector{
		as("other members", theirMembers, notAccepted(some)),
		as("the next members", oursNext, granted(seed)),
		as("members, while a change is under way", theirsNext, granted(seed)),
		as("a claim accepts nobody", claimed, notAccepted(some)),
		as("a claim accepts nobody with the next members", claimedNext, notAccepted(some)),
		as("an operator's word without a list accepts nobody", unlisted, notAccepted(some)),
		as("the marker of another member", anotherName, notAccepted(some)),
		{name: "the next members wait, too", before: state(markerOf(admitted(20*time.Second, false, oursNext))), call: acquire(),
			want: quarantined(20 * time.Second), untouched: true},
		{name: "other members, re-entry", before: mine(theirMembers), call: acquire(carrying(7), depth(2)), want: notAccepted(some), untouched: true},
		{name: "other members, repair", before: state(markerOf(admitted(0, always, theirMembers))), call: acquire(carrying(7)),
			want: notAccepted(some), untouched: true},
		{name: "the next members, re-entry", before: mine(oursNext), call: acquire(carrying(7), depth(2)), want: granted(7),
			after: []check{hash("k", me, "2")}},
		{name: "other members, held", before: state(markerOf(admitted(0, always, theirMembers)), holds("k", rival, "1"), expire("k", lease)),
			call: acquire(), want: notAccepted(some), untouched: true},
	})
}
