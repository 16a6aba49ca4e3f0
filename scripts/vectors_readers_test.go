package scripts_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	reader    = "quorumlock:reader:" // and the owner: a member
	writing   = "quorumlock:writer:k"
	forcedKey = "quorumlock:forced:k"
)

// reads makes a reader's part of "k" that ends so long from now. The key expires with the last of them.
func reads(owner string, left time.Duration) []any {
	return []any{"ZADD", "k", serverTime(left), reader + owner}
}

// readers holds when the readers at "k" are these, with these remaining times.
func readers(want map[string]time.Duration) check {
	return func(t *testing.T, s server) {
		t.Helper()
		got, err := redis.Int64Map(s.Do("ZRANGE", "k", 0, -1, "WITHSCORES"))
		testkit.Check(t, err == nil && len(got) == len(want), "the readers are %v (%v), want %v", got, err, want)
		present := now(t, s)
		for owner, left := range want {
			is := time.Duration(got[reader+owner]-present) * time.Millisecond
			testkit.Check(t, within(is, left) || left < 0 && is < 0, "%s reads for %v, want %v", owner, is, left)
		}
	}
}

func only(owner string, left time.Duration) check {
	return readers(map[string]time.Duration{owner: left})
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

func reserving(life time.Duration) asking {
	return func(a *scripts.AcquireArgs) { a.Reservation = scripts.ToMillis(life) }
}

var (
	another  = "locker:3"
	foreigns = state(ready, []any{"ZADD", "k", 10, "alice:1"}, expire("k", lease))

	// Readers, and a member that isn't one: below them, above them, and among those that are over.
	foreignFirst  = append(slices.Clip(foreigns), reads(rival, 5*time.Second))
	foreignLive   = state(ready, []any{"ZADD", "k", serverTime(time.Second), "alice:1"}, reads(rival, 5*time.Second), expire("k", lease))
	foreignLast   = state(ready, reads(rival, 5*time.Second), []any{"ZADD", "k", serverTime(time.Hour), "alice:1"}, expire("k", lease))
	foreignAmong  = state(ready, reads(rival, -time.Second), []any{"ZADD", "k", serverTime(-2 * time.Second), "alice:1"}, reads(another, -3*time.Second), expire("k", lease))
	foreignBefore = append(slices.Clip(foreignAmong), reads("locker:4", lease))
)

func readVectors() []vector {
	const s = time.Second
	left := quarantined
	barred := scripts.AcquireReply{Outcome: scripts.Barred}
	waiting, former := markerOf(admitted(20*s, false)), markerOf(admitted(0, true, of("other")))
	rivals := state(ready, reads(rival, 5*s), expire("k", 5*s), counted("k", "7"))
	mine := state(ready, reads(me, 5*s), expire("k", 5*s), counted("k", "700"))
	held := state(ready, holds("k", me, "1"), expire("k", 5*s), counted("k", "700"))
	freed := []message{{"redisson_lock__channel:{k}", "0"}}
	return forAcquire([]vector{
		{name: "alone", before: state(ready), call: asReader(), want: granted(seed), twice: true,
			after: []check{only(me, lease), ttl("k", lease), counter("k", "100"), absent(tomb)}},
		{name: "next to another", before: rivals, call: asReader(), want: granted(seed),
			after: []check{readers(map[string]time.Duration{me: lease, rival: 5 * s}), ttl("k", lease), counter("k", "100")}},
		{name: "next to a longer one", before: state(ready, reads(rival, 20*s), expire("k", 20*s)), call: asReader(), want: granted(seed),
			after: []check{readers(map[string]time.Duration{me: lease, rival: 20 * s}), ttl("k", 20*s)}},
		{name: "next to one without a time to live", before: state(ready, reads(rival, 20*s)), call: asReader(), want: granted(seed), twice: true,
			after: []check{readers(map[string]time.Duration{me: lease, rival: 20 * s}), ttl("k", -1)}},
		{name: "counts the token up", before: append(rivals, counted("k", "700")), call: asReader(), want: granted(701), after: []check{counter("k", "701")}},
		{name: "removes those that are over", before: append(rivals, reads(another, -s)), call: asReader(), want: granted(seed),
			after: []check{readers(map[string]time.Duration{me: lease, rival: 5 * s})}},
		{name: "its own is over", before: append(rivals, reads(me, -s), counted("k", "700")), call: asReader(), want: granted(701),
			after: []check{readers(map[string]time.Duration{me: lease, rival: 5 * s})}},
		{name: "all are over", before: state(ready, reads(rival, -s), expire("k", lease)), call: asReader(), want: granted(seed), after: []check{only(me, lease)}},
		{name: "a retry does not count up", before: mine, call: asReader(), want: granted(700), twice: true, after: []check{only(me, lease), counter("k", "700")}},
		{name: "never shortens", before: state(ready, reads(me, 20*s), expire("k", 20*s)), call: asReader(carrying(7)), want: granted(7),
			after: []check{only(me, 20*s), ttl("k", 20*s)}},
		{name: "a repair", before: rivals, call: asReader(carrying(500)), want: granted(500), twice: true,
			after: []check{readers(map[string]time.Duration{me: lease, rival: 5 * s}), counter("k", "500")}},

		{name: "not next to a writer", before: state(ready, holds("k", rival, "1"), expire("k", 5*s)), call: asReader(), want: heldBy(rival, 5*s),
			untouched: true, twice: true},
		{name: "not next to a writer, a repair", before: state(ready, holds("k", rival, "1"), expire("k", 5*s)), call: asReader(carrying(7)),
			want: heldBy(rival, 5*s), untouched: true},
		{name: "not while a writer waits", before: append(rivals, []any{"SET", writing, another, "PX", 1500}), call: asReader(), want: reserved(1500 * time.Millisecond),
			untouched: true},
		{name: "not while a writer waits, where nobody is", before: state(ready, []any{"SET", writing, another, "PX", 1500}), call: asReader(),
			want: reserved(1500 * time.Millisecond), untouched: true},
		{name: "not while a writer waits, and others listen", before: state(ready, []any{"SET", "quorumlock:writer:awaited", another, "PX", 1500}),
			call: asReader(named("awaited")), untouched: true,
			want: scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: 1500 * time.Millisecond, Waiting: 1, Reserved: true}},
		{name: "a writer is there, and another waits", before: state(ready, holds("k", rival, "1"), expire("k", 5*s), []any{"SET", writing, another, "PX", 1500}),
			call: asReader(), want: heldBy(rival, 5*s), untouched: true},
		{name: "a retry while a writer waits", before: append(mine, []any{"SET", writing, another, "PX", 1500}), call: asReader(), want: granted(700)},
		{name: "a repair while a writer waits", before: append(rivals, []any{"SET", writing, another, "PX", 1500}), call: asReader(carrying(500)), want: granted(500),
			after: []check{text(writing, another)}},

		{name: "a downgrade", before: held, call: asReader(carrying(700)), want: granted(700), published: freed, twice: true,
			after: []check{only(me, lease), ttl("k", lease), counter("k", "700")}},
		{name: "a downgrade of a longer lease", before: state(ready, holds("k", me, "1"), expire("k", 20*s)), call: asReader(carrying(7)), want: granted(7),
			published: freed, after: []check{only(me, 20*s), ttl("k", 20*s)}},
		{name: "a downgrade of a lock without a time to live", before: state(ready, holds("k", me, "1")), call: asReader(carrying(7)), want: granted(7),
			published: freed, after: []check{only(me, lease), ttl("k", lease)}},
		{name: "a downgrade in quarantine", before: append(held, waiting), call: asReader(carrying(700)), want: granted(700), published: freed,
			after: []check{marked(20*s, ours)}},
		{name: "a downgrade at the marker of an earlier process", before: append(held, former), call: asReader(carrying(700)), want: granted(700), published: freed},
		{name: "a downgrade while a writer waits", before: append(held, []any{"SET", writing, another, "PX", 1500}), call: asReader(carrying(700)),
			want: granted(700), published: freed},

		{name: "a repair with a token below the counter", before: mine, call: asReader(carrying(50)), want: granted(700), after: []check{counter("k", "700")}},
		{name: "held for ever", before: state(ready, holds("k", rival, "1")), call: asReader(), want: heldBy(rival, -1), untouched: true},

		{name: "in quarantine", before: state(waiting), call: asReader(), want: left(20 * s), untouched: true},
		{name: "in quarantine, next to readers", before: append(rivals, waiting), call: asReader(), want: left(20 * s), untouched: true},
		{name: "in quarantine, a repair", before: append(rivals, waiting), call: asReader(carrying(7)), want: left(20 * s), untouched: true},
		{name: "in quarantine, a repair of one that is over", before: state(waiting, reads(me, -s), expire("k", lease)), call: asReader(carrying(7)), want: left(20 * s),
			untouched: true},
		{name: "in quarantine for longer than the max lease", before: state(markerOf(admitted(35*s, false))), call: asReader(), want: notAccepted(some), untouched: true},
		{name: "in quarantine, entered again", before: append(mine, waiting), call: asReader(carrying(700), depth(2)), want: granted(700),
			after: []check{marked(20*s, ours)}},
		{name: "after the quarantine", before: state(markerOf(admitted(-time.Hour, false))), call: asReader(), want: granted(seed), after: []check{only(me, lease)}},
		{name: "no marker", call: asReader(), want: notAccepted(""), untouched: true},
		{name: "the marker of an earlier process", before: append(rivals, former), call: asReader(), want: notAccepted(some), untouched: true},
		{name: "other members", before: append(slices.Clip(rivals), markerOf(admitted(0, true, theirMembers))), call: asReader(), want: notAccepted(some), untouched: true},
		{name: "in quarantine, a late request of one that is there", before: append(slices.Clip(mine), waiting), call: asReader(), want: left(20 * s), untouched: true},
		{name: "a counter that is nan", before: append(slices.Clip(rivals), counted("k", "nan")), call: asReader(), untouched: true,
			err: `QUORUMLOCK the token counter "` + counterOf("k") + `" is not a number`},
		{name: "the marker of an earlier process, entered again", before: append(mine, former), call: asReader(carrying(700)), want: granted(700)},

		{name: "already released", before: state(ready, []any{"SET", tomb, "1"}), call: asReader(), want: barred, untouched: true},
		{name: "a repair after a forced release", before: state(ready, []any{"SET", forcedKey, "700"}), call: asReader(carrying(700)), want: barred, untouched: true},
		{name: "a later reader after a forced release", before: state(ready, []any{"SET", forcedKey, "700"}, counted("k", "701")), call: asReader(carrying(701)), want: granted(701)},
		{name: "a fresh reader after a forced release", before: state(ready, []any{"SET", forcedKey, "700"}, counted("k", "700")), call: asReader(), want: granted(701)},

		{name: "an application's sorted set", before: foreigns, call: asReader(), untouched: true,
			err: `QUORUMLOCK the key "k" holds a sorted set that is no lock`},
		{name: "a foreign member first", before: foreignFirst, call: asReader(), err: noLock, untouched: true},
		{name: "a foreign member first, not over yet", before: foreignLive, call: asReader(), err: noLock, untouched: true},
		{name: "a foreign member last", before: foreignLast, call: asReader(), err: noLock, untouched: true},
		{name: "a foreign member among those that are over", before: foreignBefore, call: asReader(), err: noLock, untouched: true},
		{name: "text at the bar of a forced release", before: state(ready, []any{"SET", forcedKey, "text"}), call: asReader(carrying(7)), want: granted(7)},
		{name: "an application's hash", before: state(ready, holds("k", "name", "bob")), call: asReader(), err: noLock, untouched: true},
		{name: "an application's string", before: state(ready, []any{"SET", "k", "x"}), call: asReader(), err: "WRONGTYPE", untouched: true},
		{name: "Redisson's read-write lock", before: state(ready, []any{"HSET", "k", "mode", "read", rival, "1"}, expire("k", lease)), call: asReader(), err: noLock, untouched: true},
		{name: "a counter that no lock reaches", before: append(rivals, counted("k", "9007199254740990")), call: asReader(), err: tooHigh("k"), untouched: true},
		{name: "a counter that is text", before: append(rivals, counted("k", "seven")), call: asReader(), untouched: true,
			err: `QUORUMLOCK the token counter "` + counterOf("k") + `" is not a number`},
		{name: "a list at the counter", before: state(ready, []any{"RPUSH", counterOf("k"), "x"}), call: asReader(), err: "QUORUMLOCK", untouched: true},
	})
}

// besideReadersVectors are the vectors of acquire at a name with readers.
func besideReadersVectors() []vector {
	const s = time.Second
	two := state(ready, reads(rival, 5*s), reads(another, 3*s), reads("locker:4", -s), expire("k", 5*s), counted("k", "700"))
	over := state(ready, reads(rival, -s), expire("k", lease), counted("k", "700"))
	waits := reserving(1500 * time.Millisecond)
	return forAcquire([]vector{
		{name: "held by readers", before: two, call: acquire(), want: byReaders(rival, 5*s, 2), untouched: true},
		{name: "held by readers, a repair", before: two, call: acquire(carrying(7)), want: byReaders(rival, 5*s, 2), untouched: true},
		{name: "held by readers, with a waiter", before: state(ready, []any{"ZADD", "awaited", serverTime(lease), reader + rival}, expire("awaited", lease)), untouched: true,
			call: acquire(named("awaited")), want: scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: lease, Waiting: 1, Holder: rival, Readers: 1}},
		{name: "held by readers, and waits", before: two, call: acquire(waits), want: byReaders(rival, 5*s, 2),
			after: []check{text(writing, me), ttl(writing, 1500*time.Millisecond), readers(map[string]time.Duration{rival: 5 * s, another: 3 * s, "locker:4": -s})}},
		{name: "held by itself as a reader", before: state(ready, reads(me, 5*s), expire("k", 5*s)), call: acquire(carrying(7)), want: byReaders(me, 5*s, 1), untouched: true},
		{name: "one name held by readers, the other by a lock, and waits", before: append(two, holds("l", rival, "1"), expire("l", lease)),
			call: acquire(named("k", "l"), waits), want: heldBy(rival, lease), untouched: true},
		{name: "one name held by a lock, the other by one reader", call: acquire(named("l", "k")), want: heldBy(another, lease), untouched: true,
			before: state(ready, reads(rival, 5*s), expire("k", 5*s), holds("l", another, "1"), expire("l", lease))},
		{name: "two names held by readers", before: append(slices.Clip(two), []any{"ZADD", "l", serverTime(lease), reader + another}, expire("l", lease)), call: acquire(named("k", "l")),
			want: byReaders(rival, lease, 2), untouched: true},
		{name: "one name held by readers, the other free, and waits", before: two, call: acquire(named("l", "k"), waits), want: byReaders(rival, 5*s, 2),
			after: []check{text(writing, me), text("quorumlock:writer:l", me), absent("l")}},
		{name: "held by a lock, and waits", before: state(ready, holds("k", rival, "1"), expire("k", 5*s)), call: acquire(waits), want: heldBy(rival, 5*s), untouched: true},
		{name: "readers that are over", before: over, call: acquire(), want: granted(701), twice: true, after: []check{hash("k", me, "1"), ttl("k", lease), counter("k", "701")}},
		{name: "readers that are over, of two names", call: acquire(named("k", "l")), want: granted(701), after: []check{hash("k", me, "1"), hash("l", me, "1")},
			before: append(slices.Clip(over), []any{"ZADD", "l", serverTime(-s), reader + rival}, expire("l", lease))},
		{name: "readers that are over, a repair", before: over, call: acquire(carrying(9)), want: granted(700), after: []check{hash("k", me, "1")}},
		{name: "readers that are over, in quarantine", before: append(over, markerOf(admitted(20*s, false))), call: acquire(), untouched: true,
			want: quarantined(20 * s)},
		{name: "granted, and has waited", before: state(ready, []any{"SET", writing, rival, "PX", 1500}), call: acquire(waits), want: granted(seed),
			after: []check{hash("k", me, "1"), absent(writing)}},
		{name: "granted, another waits", before: state(ready, []any{"SET", writing, rival, "PX", 1500}), call: acquire(), want: granted(seed),
			after: []check{hash("k", me, "1"), text(writing, rival)}},
		{name: "an application's sorted set", before: foreigns, call: acquire(), err: noLock, untouched: true},
		{name: "a foreign member first", before: foreignFirst, call: acquire(), err: noLock, untouched: true},
		{name: "a foreign member last", before: foreignLast, call: acquire(), err: noLock, untouched: true},
		{name: "a foreign member among readers that are over", before: foreignAmong, call: acquire(), err: noLock, untouched: true},
		{name: "an application's sorted set, and waits", before: foreigns, call: acquire(waits), err: noLock, untouched: true},
	})
}

func ownedByReadersVectors() []vector {
	const s = time.Second
	lock := scripts.Renewal{Names: testkit.Names("k"), Owner: scripts.OwnerOf(me).AsReader(), Token: 7, Lease: scripts.ToMillis(lease)}
	renews := func(v vector, want ...scripts.Renewed) vector {
		v.want = want
		return renew(v, lock)
	}
	release := func(v vector, depth int, found int) vector {
		v.call = scripts.Release(testkit.Names("k"), scripts.OwnerOf(me).AsReader(), depth)
		v.want = scripts.ReleaseReply{Found: found, Heard: len(v.published)}
		return v
	}
	raise := func(v vector) vector {
		v.call = scripts.Raise(testkit.Names("k"), scripts.OwnerOf(me).AsReader(), 9)
		return v
	}
	force := func(v vector, readers uint64) vector {
		v.call = scripts.Force(scripts.NewName("k"), nil, readers, maxLease)
		return v
	}
	inspect := func(v vector, want scripts.InspectReply) vector {
		v.call, v.parse, v.untouched, v.want = scripts.Inspect(scripts.NewName("k")), parseInspect, true, want
		return v
	}
	alone := state(reads(me, 5*s), expire("k", 5*s), counted("k", "7"))
	both := slices.Clip(append(alone, reads(rival, 3*s)))
	stale := slices.Concat(alone, state(reads(rival, -s)))
	freed := []message{{"redisson_lock__channel:{k}", "0"}}
	const kept, gone, taken = scripts.Kept, scripts.Gone, scripts.Taken
	withdraws := func(v vector, texts ...string) vector {
		v.call = scripts.Withdraw(testkit.Names(texts...), scripts.OwnerOf(me))
		v.want = scripts.ReleaseReply{}
		return v
	}
	return []vector{
		withdraws(vector{name: "a writer that gives up", before: append(both, []any{"SET", writing, me, "PX", 1500}), published: freed, after: []check{absent(writing)}}, "k"),
		withdraws(vector{name: "a writer that gives up, another waits", before: append(both, []any{"SET", writing, another, "PX", 1500}), untouched: true}, "k"),
		withdraws(vector{name: "a writer that gives up, two names", before: state([]any{"SET", writing, another}, []any{"SET", "quorumlock:writer:l", me}),
			published: []message{{"redisson_lock__channel:{l}", "0"}}, after: []check{text(writing, another), absent("quorumlock:writer:l")}}, "k", "l"),
		withdraws(vector{name: "a writer that gives up, a list at its reservation", before: state([]any{"RPUSH", writing, "x"}), untouched: true}, "k"),
		renews(vector{name: "a reader", before: alone, twice: true, after: []check{only(me, lease), ttl("k", lease), counter("k", "7")}}, kept),
		renews(vector{name: "a reader next to another", before: both, after: []check{readers(map[string]time.Duration{me: lease, rival: 3 * s})}}, kept),
		renews(vector{name: "a reader, never shortens", before: state(reads(me, 20*s), expire("k", 20*s)), after: []check{only(me, 20*s), ttl("k", 20*s)}}, kept),
		renews(vector{name: "a reader without a time to live", before: state(reads(me, 5*s), reads(rival, 20*s)),
			after: []check{readers(map[string]time.Duration{me: lease, rival: 20 * s}), ttl("k", -1)}}, kept),
		renews(vector{name: "a reader raises the counter", before: append(alone, counted("k", "3")), after: []check{counter("k", "7")}}, kept),
		renews(vector{name: "a reader that is over", before: state(reads(me, -s), reads(rival, 5*s), expire("k", 5*s)), untouched: true}, taken),
		renews(vector{name: "a reader that is gone", untouched: true}, gone),
		renews(vector{name: "a reader, and others are there", before: state(reads(rival, 5*s), expire("k", 5*s)), untouched: true}, taken),
		renews(vector{name: "a reader, and a writer is there", before: state(holds("k", rival, "1"), expire("k", 5*s)), untouched: true}, taken),
		renews(vector{name: "a reader whose downgrade was missed", before: state(holds("k", me, "1"), expire("k", 5*s)), after: []check{hash("k", me, "1"), ttl("k", lease)}}, kept),
		renews(vector{name: "a reader at an application's list", before: state([]any{"RPUSH", "k", "x"}), untouched: true}, taken),
		renews(vector{name: "a reader with a foreign member", before: append(slices.Clip(foreigns), reads(me, 5*s)), after: []check{ttl("k", lease)}}, kept),
		renews(vector{name: "a reader, other members", before: append(alone, markerOf(admitted(0, true, theirMembers))), untouched: true}, scripts.NotRenewed),
		renews(vector{name: "a reader, in quarantine", before: append(alone, markerOf(admitted(20*s, false))), after: []check{only(me, lease)}}, kept),

		release(vector{name: "the last reader", before: alone, published: freed, after: []check{absent("k"), text(counterOf("k"), "7")}}, 0, 1),
		release(vector{name: "the last reader whose lease lasts", before: stale, published: freed, after: []check{absent("k")}}, 0, 1),
		release(vector{name: "a reader next to another", before: both, after: []check{only(rival, 3*s)}}, 0, 1),
		release(vector{name: "a foreign member stays", before: append(slices.Clip(foreignAmong), reads(me, 5*s)), after: []check{members("k", "alice:1")}}, 0, 1),
		release(vector{name: "a reader that is gone", before: state(reads(rival, 3*s), expire("k", 3*s)), untouched: true}, 0, 0),
		release(vector{name: "a reader, and a writer is there", before: state(holds("k", rival, "1"), expire("k", 5*s)), untouched: true}, 0, 0),
		release(vector{name: "a reader whose downgrade was missed", before: state(holds("k", me, "1"), expire("k", 5*s)), published: freed, after: []check{absent("k")}}, 0, 1),
		release(vector{name: "a reader's depth", before: both, untouched: true}, 1, 1),
		release(vector{name: "a reader's depth, of one that is gone", before: state(reads(rival, 3*s), expire("k", 3*s)), untouched: true}, 1, 0),
		release(vector{name: "a reader's depth, and its lease is over", before: state(reads(me, -s), expire("k", 5*s)), untouched: true}, 1, 1),
		release(vector{name: "a reader that is gone, next to some that are over", before: state(reads(rival, -s), expire("k", 5*s)), untouched: true}, 0, 0),
		release(vector{name: "a reader leaves a tombstone", before: both, tombstone: maxLease, after: []check{ttl(tomb, maxLease)}}, 0, 1),

		raise(vector{name: "a reader", before: both, want: uint64(9), after: []check{counter("k", "9")}}),
		raise(vector{name: "a reader that is over", before: state(reads(me, -s), reads(rival, 5*s), expire("k", 5*s)), want: uint64(0), untouched: true}),
		raise(vector{name: "a reader that is gone", want: uint64(0), untouched: true}),
		raise(vector{name: "a reader, and a writer is there", before: state(holds("k", rival, "1"), expire("k", 5*s)), want: uint64(0), untouched: true}),
		raise(vector{name: "a reader, and its owner writes", before: state(holds("k", me, "1"), expire("k", 5*s)), want: uint64(0), untouched: true}),
		raise(vector{name: "a reader at an application's string", before: state([]any{"SET", "k", "x"}), err: "WRONGTYPE", untouched: true}),
		raise(vector{name: "a reader at an application's list", before: state([]any{"RPUSH", "k", "x"}), err: "WRONGTYPE", untouched: true}),

		force(vector{name: "readers", before: both, want: true, published: freed, after: []check{absent("k"), text(forcedKey, "70"), ttl(forcedKey, maxLease), counter("k", "70")}}, 70),
		force(vector{name: "readers, the counter is higher", before: append(both, counted("k", "99")), want: true, published: freed,
			after: []check{absent("k"), text(forcedKey, "70"), counter("k", "99")}}, 70),
		force(vector{name: "bars readers where nobody is", want: false, after: []check{text(forcedKey, "70"), counter("k", "70")}}, 70),
		force(vector{name: "readers, a hash at the counter", before: append(both, []any{"DEL", counterOf("k")}, []any{"HSET", counterOf("k"), "x", "y"}), want: true, published: freed,
			after: []check{absent("k", forcedKey), hash(counterOf("k"), "x", "y")}}, 70),
		force(vector{name: "readers, a counter that is nan", before: append(both, counted("k", "nan")), want: true, published: freed,
			after: []check{absent("k", forcedKey), text(counterOf("k"), "nan")}}, 70),
		force(vector{name: "an application's sorted set is not deleted", before: foreigns, err: noLock, untouched: true}, 70),

		inspect(vector{name: "readers", before: append(both, reads(another, -s))}, scripts.InspectReply{TTL: 5 * s, Token: 7, Readers: 2}),
		inspect(vector{name: "readers, and a writer waits", before: append(both, []any{"SET", writing, another, "PX", 1500})},
			scripts.InspectReply{TTL: 5 * s, Token: 7, Readers: 2, Reservation: 1500 * time.Millisecond}),
		inspect(vector{name: "readers that are over", before: state(reads(me, -s), expire("k", 5*s))}, scripts.InspectReply{}),
		vector{name: "a foreign member first", before: foreignFirst, call: scripts.Inspect(scripts.NewName("k")), parse: parseInspect, err: noLock},
		vector{name: "an application's sorted set", before: foreigns, call: scripts.Inspect(scripts.NewName("k")), parse: parseInspect, err: noLock},
	}
}

// Ten thousand readers are as quick as one: no script goes through them. The fastest tenth of the reads tells, which
// other work on the machine delays least.
func TestManyReaders(t *testing.T) {
	s := startReal(t)
	testkit.Do(t, s, "FLUSHALL")
	testkit.Do(t, s, resolve(t, s, ready)...)
	const many = 10_000
	ask := func(number uint64) scripts.Call {
		return asReader(func(a *scripts.AcquireArgs) {
			a.Owner, a.Lease = scripts.NewOwner("locker", number).AsReader(), scripts.ToMillis(time.Hour)
		})
	}
	took := func(number uint64) time.Duration {
		call := ask(number)
		command := whole(call.Command(nil, true, connArgs(call)))
		began := time.Now()
		testkit.Do(t, s, command...)
		return time.Since(began)
	}
	var first, last []time.Duration
	for i := range uint64(many) {
		d := took(i)
		switch {
		case i < 1000:
			first = append(first, d)
		case i >= many-1000:
			last = append(last, d)
		}
	}
	slices.Sort(first)
	slices.Sort(last)
	t.Logf("the fastest tenth of 1000 reads: %v at first, %v next to %d others", first[100], last[100], many)
	testkit.Check(t, last[100] <= 4*first[100],
		"a read takes %v next to %d others, and %v at first", last[100], many, first[100])
	n, err := redis.Int(s.Do("ZCARD", "k"))
	testkit.Check(t, n == many && err == nil, "%d readers (%v)", n, err)
	call := acquire()
	reply, err := call.Parse(testkit.Do(t, s, whole(call.Command(nil, true, connArgs(call)))...))
	testkit.Check(t, err == nil && reply.Acquire.Readers == many, "a writer is refused with %+v (%v)", reply, err)
}

// members holds when the sorted set has these members.
func members(key string, want ...string) check {
	return func(t *testing.T, s server) {
		t.Helper()
		got, _ := sortedSet(t, s, key)
		testkit.Check(t, slices.Equal(got, want), "the members of %q are %q, want %q", key, got, want)
	}
}

// sortedSet is the members of a sorted set, and their scores, in the members' order.
func sortedSet(t *testing.T, s server, key string) (members, scores []string) {
	t.Helper()
	all, err := redis.StringMap(s.Do("ZRANGE", key, 0, -1, "WITHSCORES"))
	testkit.Must(t, err)
	members = slices.Sorted(maps.Keys(all))
	for _, member := range members {
		scores = append(scores, all[member])
	}
	return members, scores
}
