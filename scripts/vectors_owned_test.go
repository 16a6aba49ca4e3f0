package scripts_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// renewal renews one lock of the test's owner.
func renewal(token uint64, texts ...string) scripts.Renewal {
	return scripts.Renewal{Names: testkit.Names(texts...), Owner: scripts.OwnerOf(me), Token: token, Lease: scripts.ToMillis(lease)}
}

func renew(v vector, batch ...scripts.Renewal) vector {
	v.call = scripts.Renew(ours, batch)
	v.parse = func(reply any) (any, error) {
		parsed, err := v.call.Parse(reply)
		renewed, refusal := parsed.Renew, parsed.NotAccepted
		if (refusal == nil) == (v.earlier || slices.Contains(renewed, scripts.NotRenewed)) || refusal != nil && refusal.Process != process {
			return nil, fmt.Errorf("the refusal is %+v", refusal)
		}
		return renewed, err
	}
	if !v.bare {
		v.before = append(state(ready), v.before...)
	}
	return v
}

func renewVectors() []vector {
	const kept, gone, taken = scripts.Kept, scripts.Gone, scripts.Taken
	outcomes := func(list ...scripts.Renewed) []scripts.Renewed { return list }
	mine := func(name string, d time.Duration) [][]any { return state(holds(name, me, "2"), expire(name, d)) }
	other := scripts.Renewal{Names: testkit.Names("r"), Owner: scripts.OwnerOf(rival), Token: 9, Lease: scripts.ToMillis(20 * time.Second)}
	return []vector{
		renew(vector{name: "raises", before: append(mine("k", 5*time.Second), counted("k", "7")), want: outcomes(kept), twice: true,
			after: []check{hash("k", me, "2"), ttl("k", lease), counter("k", "7")}}, renewal(7, "k")),
		renew(vector{name: "never shortens", before: append(mine("k", time.Minute), counted("k", "7")), want: outcomes(kept),
			after: []check{ttl("k", time.Minute)}}, renewal(7, "k")),
		renew(vector{name: "a key without a time to live gets none", before: state(holds("k", me, "1")), want: outcomes(kept),
			after: []check{ttl("k", -1)}}, renewal(7, "k")),
		renew(vector{name: "raises the counter", before: append(mine("k", 5*time.Second), counted("k", "3")), want: outcomes(kept),
			after: []check{counter("k", "1800000000000002")}}, renewal(1800000000000002, "k")),
		renew(vector{name: "restores a counter that was lost", before: mine("k", 5*time.Second), want: outcomes(kept),
			after: []check{counter("k", "7")}}, renewal(7, "k")),
		renew(vector{name: "keeps a higher counter", before: append(mine("k", 5*time.Second), counted("k", "50")), want: outcomes(kept),
			after: []check{counter("k", "50")}}, renewal(7, "k")),
		renew(vector{name: "keeps the highest token of a counter's locks", want: outcomes(kept, kept, kept),
			before: append(append(mine(near, 5*time.Second), mine(neighbour, 5*time.Second)...), mine("k", 5*time.Second)...),
			after:  []check{counter(near, "9"), counter("k", "6")}}, renewal(9, near), renewal(7, neighbour), renewal(6, "k")),
		renew(vector{name: "raises to the highest token of a counter's locks", want: outcomes(kept, kept),
			before: append(append(mine(near, 5*time.Second), mine(neighbour, 5*time.Second)...), counted(near, "5")),
			after:  []check{counter(near, "9")}}, renewal(7, near), renewal(9, neighbour)),
		renew(vector{name: "gone", before: state(counted("k", "3")), want: outcomes(gone), untouched: true}, renewal(7, "k")),
		renew(vector{name: "taken", before: state(holds("k", rival, "1"), expire("k", 5*time.Second), counted("k", "3")),
			want: outcomes(taken), untouched: true}, renewal(7, "k")),
		renew(vector{name: "in a batch", want: outcomes(gone, kept, taken, kept, kept),
			before: append(append(mine("k", 5*time.Second), mine("m", 5*time.Second)...),
				holds("r", rival, "1"), expire("r", 5*time.Second), holds("x", rival, "1"), expire("x", 5*time.Second)),
			after: []check{ttl("k", lease), ttl("m", lease), ttl("r", 20*time.Second), ttl("x", 5*time.Second), absent("g"),
				counter("k", "5"), counter("r", "9"), counter("m", "6"), absent(counterOf("g"), counterOf("x"))}},
			renewal(4, "g"), renewal(5, "k"), renewal(8, "x"), other, renewal(6, "m")),
		renew(vector{name: "a key of another type does not stop the others", want: outcomes(taken, kept),
			before: append(mine("k", 5*time.Second), []any{"SET", "s", "text"}),
			after:  []check{ttl("k", lease), text("s", "text"), ttl("s", -1)}}, renewal(5, "s"), renewal(5, "k")),
		renew(vector{name: "a counter of another type does not stop the others", want: outcomes(kept, kept),
			before: append(append(mine("k", 5*time.Second), mine("l", 5*time.Second)...), []any{"RPUSH", counterOf("k"), "x"}),
			after:  []check{ttl("k", lease), ttl("l", lease), counter("l", "5")}}, renewal(5, "k"), renewal(5, "l")),
		renew(vector{name: "a counter that is no number is left", want: outcomes(kept), before: append(mine("k", 5*time.Second), counted("k", "x")),
			after: []check{ttl("k", lease), text(counterOf("k"), "x")}}, renewal(5, "k")),
		renew(vector{name: "two names kept, then two with one gone, then two with one taken", want: outcomes(kept, gone, taken),
			before: append(append(append(mine("a", 5*time.Second), mine("b", 5*time.Second)...), mine("c", 5*time.Second)...), holds("x", rival, "1")),
			after:  []check{ttl("a", lease), ttl("b", lease), ttl("c", lease), absent("g")}},
			renewal(5, "a", "b"), renewal(5, "c", "g"), renewal(5, "g", "x")),
		renew(vector{name: "a quarantined node renews", want: outcomes(kept), after: []check{ttl("k", lease)},
			before: append(mine("k", 5*time.Second), markerOf(admitted(20*time.Second, false)))}, renewal(5, "k")),
		renew(vector{name: "no marker", bare: true, before: mine("k", 5*time.Second), want: outcomes(scripts.NotRenewed), untouched: true}, renewal(5, "k")),
		renew(vector{name: "the marker of an earlier process", earlier: true, before: append(mine("k", 5*time.Second), markerOf(admitted(0, true, of("other")))),
			want: outcomes(kept), after: []check{ttl("k", lease)}}, renewal(5, "k")),
		renew(vector{name: "the marker of an earlier process, other members", want: outcomes(scripts.NotRenewed), untouched: true,
			before: append(mine("k", 5*time.Second), markerOf(admitted(0, true, of("other"), theirMembers)))}, renewal(5, "k")),
		renew(vector{name: "the marker of an earlier process, another member", want: outcomes(scripts.NotRenewed), untouched: true,
			before: append(mine("k", 5*time.Second), markerOf(admitted(0, true, of("other"), anotherName)))}, renewal(5, "k")),
		renew(vector{name: "other members", before: append(mine("k", 5*time.Second), markerOf(admitted(0, true, theirMembers))),
			want: outcomes(scripts.NotRenewed), untouched: true}, renewal(5, "k")),
		renew(vector{name: "a claim", before: append(mine("k", 5*time.Second), markerOf(admitted(0, true, claimed))),
			want: outcomes(scripts.NotRenewed), untouched: true}, renewal(5, "k")),
		renew(vector{name: "other members, three locks", want: outcomes(gone, scripts.NotRenewed, taken), untouched: true,
			before: append(append(mine("k", 5*time.Second), holds("x", rival, "1"), expire("x", 5*time.Second)), markerOf(admitted(0, true, theirMembers)))},
			renewal(4, "g"), renewal(5, "k"), renewal(8, "x")),
		renew(vector{name: "the next members", before: append(mine("k", 5*time.Second), markerOf(admitted(0, true, oursNext))),
			want: outcomes(kept), after: []check{ttl("k", lease)}}, renewal(5, "k")),
		renew(vector{name: "names byte for byte", want: outcomes(kept, kept),
			before: append(mine("a\x00b", 5*time.Second), mine("a\nb", 5*time.Second)...),
			after:  []check{ttl("a\x00b", lease), ttl("a\nb", lease)}}, renewal(5, "a\x00b"), renewal(5, "a\nb")),
	}
}

// freed are the messages that tell of freed locks, at these ends of their channels' names.
func freed(list ...string) (messages []message) {
	for _, name := range list {
		messages = append(messages, message{"redisson_lock__channel:" + name, "0"})
	}
	return messages
}

func releaseVectors() []vector {
	found := func(names int) scripts.ReleaseReply { return scripts.ReleaseReply{Found: names} }
	release := func(v vector, depth int, texts ...string) vector {
		v.call = scripts.Release(testkit.Names(texts...), scripts.OwnerOf(me), depth)
		if len(v.published) > 0 { // to the test's own connection
			v.want = scripts.ReleaseReply{Found: v.want.(scripts.ReleaseReply).Found, Heard: 1}
		}
		return v
	}
	mine := state(holds("k", me, "1"), expire("k", lease), counted("k", "7"))
	heard := release(vector{name: "two names, the first with a waiter", before: state(holds("awaited", me, "1"), holds("k", me, "1")), want: found(2),
		published: []message{{scripts.Channel("awaited"), "0"}, {scripts.Channel("k"), "0"}}}, 0, "awaited", "k")
	heard.want = scripts.ReleaseReply{Found: 2, Heard: 2}
	return []vector{heard,
		release(vector{name: "releases", before: mine, want: found(1), published: freed("{k}"),
			after: []check{absent("k", tomb), text(counterOf("k"), "7")}}, 0, "k"),
		release(vector{name: "releases any depth", before: state(holds("k", me, "17"), expire("k", lease)), want: found(1),
			published: freed("{k}"), after: []check{absent("k")}}, 0, "k"),
		release(vector{name: "a second time finds nothing", before: state(counted("k", "7")), want: found(0), untouched: true}, 0, "k"),
		release(vector{name: "of another's lock", before: state(holds("k", rival, "1"), expire("k", lease)), want: found(0), untouched: true}, 0, "k"),
		release(vector{name: "of another's lock, lowering", before: state(holds("k", rival, "3"), expire("k", lease)), want: found(0),
			untouched: true}, 1, "k"),
		release(vector{name: "leaves a tombstone", before: mine, tombstone: maxLease, want: found(1), published: freed("{k}"),
			after: []check{absent("k"), text(tomb, "1"), ttl(tomb, maxLease)}}, 0, "k"),
		release(vector{name: "leaves a tombstone before the grant arrives", tombstone: maxLease, want: found(0), twice: true,
			after: []check{absent("k"), ttl(tomb, maxLease)}}, 0, "k"),
		release(vector{name: "leaves a tombstone next to another's lock", before: state(holds("k", rival, "1"), expire("k", lease)),
			tombstone: maxLease, want: found(0), after: []check{hash("k", rival, "1"), ttl("k", lease), ttl(tomb, maxLease)}}, 0, "k"),
		release(vector{name: "lowers the depth", before: state(holds("k", me, "3"), expire("k", lease)), want: found(1), twice: true,
			after: []check{hash("k", me, "2"), ttl("k", lease), absent(tomb)}}, 2, "k"),
		release(vector{name: "lowers nothing that is gone", want: found(0), untouched: true}, 2, "k"),
		release(vector{name: "three names, one held, one another's, one gone",
			before: append(mine, holds("x", rival, "1"), expire("x", lease)), want: found(1), published: freed("{k}"),
			after: []check{absent("k", "g"), hash("x", rival, "1")}}, 0, "g", "x", "k"),
		release(vector{name: "next to a field of another's", before: state([]any{"HSET", "k", me, "1", rival, "1"}, expire("k", lease)), want: found(1),
			after: []check{hash("k", rival, "1"), ttl("k", lease)}}, 0, "k"),
		release(vector{name: "two names", before: append(mine, holds("l", me, "1"), expire("l", lease)), want: found(2),
			published: freed("{k}", "{l}"), after: []check{absent("k", "l")}}, 0, "k", "l"),
		release(vector{name: "a key of another type does not stop the others", before: append(mine, []any{"SET", "s", "text"}), want: found(1),
			published: freed("{k}"), after: []check{absent("k"), text("s", "text")}}, 0, "s", "k"),
		release(vector{name: "lowering, a key of another type does not stop the others", before: append(mine, []any{"SET", "s", "text"}),
			want: found(1), after: []check{hash("k", me, "4"), text("s", "text")}}, 4, "s", "k"),
		release(vector{name: "no braces around a name that has one", before: state(holds("a{b}c", me, "1")), want: found(1),
			published: freed("a{b}c"), after: []check{absent("a{b}c")}}, 0, "a{b}c"),
		release(vector{name: "an opening brace is enough", before: state(holds("a{b", me, "1")), want: found(1), published: freed("a{b")}, 0, "a{b"),
		release(vector{name: "a closing brace is not", before: state(holds("a}b", me, "1")), want: found(1), published: freed("{a}b}")}, 0, "a}b"),
		release(vector{name: "names byte for byte", before: state(holds("a\x00b", me, "1"), holds("a\nb", me, "1"), holds("a", me, "1")), want: found(2),
			published: freed("{a\x00b}", "{a\nb}"), after: []check{absent("a\x00b", "a\nb"), hash("a", me, "1")}}, 0, "a\x00b", "a\nb"),
		release(vector{name: "a quarantined node releases", before: append(mine, markerOf(admitted(lease, false, of("other")))), want: found(1),
			published: freed("{k}"), after: []check{absent("k")}}, 0, "k"),
	}
}

func raiseVectors() []vector {
	raise := func(v vector, token uint64, texts ...string) vector {
		v.call = scripts.Raise(testkit.Names(texts...), scripts.OwnerOf(me), token)
		return v
	}
	mine := state(holds("k", me, "1"), expire("k", lease), counted("k", "7"))
	both := append(mine, holds("l", me, "1"), expire("l", lease), counted("l", "7"))
	stands := func(counter uint64) uint64 { return counter }
	return []vector{
		raise(vector{name: "raises", before: mine, want: stands(1800000000000002), twice: true, after: []check{counter("k", "1800000000000002"), ttl("k", lease)}},
			1800000000000002, "k"),
		raise(vector{name: "finds the token there", before: state(holds("k", me, "1"), counted("k", "9")), want: stands(9), untouched: true}, 9, "k"),
		// A neighbour was granted 9. Or the owner was granted 7, which expired; a rival was granted
		// 8; then a late copy of the request was granted 9. The client knows which may be.
		raise(vector{name: "tells a higher counter", before: state(holds("k", me, "1"), counted("k", "9")), want: stands(9), untouched: true}, 8, "k"),
		raise(vector{name: "writes a counter that was lost", before: state(holds("k", me, "1")), want: stands(9), after: []check{counter("k", "9")}}, 9, "k"),
		raise(vector{name: "not when gone", before: state(counted("k", "7")), want: stands(0), untouched: true}, 9, "k"),
		raise(vector{name: "not when taken", before: state(holds("k", rival, "1"), counted("k", "7")), want: stands(0), untouched: true}, 9, "k"),
		raise(vector{name: "two names", before: both, want: stands(9), twice: true, after: []check{counter("k", "9"), counter("l", "9")}}, 9, "k", "l"),
		raise(vector{name: "two names, one higher", before: append(both, counted("k", "12")), want: stands(12),
			after: []check{counter("k", "12"), counter("l", "9")}}, 9, "k", "l"),
		raise(vector{name: "two names, both higher", before: append(both, counted("k", "12"), counted("l", "10")), want: stands(12), untouched: true},
			9, "k", "l"),
		raise(vector{name: "two names of one counter", before: state(holds(near, me, "1"), holds(neighbour, me, "1"), counted(near, "7")),
			want: stands(9), after: []check{counter(near, "9")}}, 9, near, neighbour),
		raise(vector{name: "two names, the last not mine", before: append(mine, counted("l", "7")), want: stands(0), untouched: true}, 9, "k", "l"),
		raise(vector{name: "a counter that is no number", before: state(holds("a", me, "1"), counted("a", "x")),
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`, untouched: true}, 9, "a"),
		raise(vector{name: "a counter that is nan", before: append(mine, counted("k", "nan")), err: "QUORUMLOCK", untouched: true}, 9, "k"),
		raise(vector{name: "a counter that no lock reaches", before: append(mine, counted("k", "9007199254740990")), err: tooHigh("k"), untouched: true}, 9, "k"),
		raise(vector{name: "two names, one counter that no lock reaches", before: append(both, counted("l", "4503599627370496")), err: tooHigh("l")}, 9, "k", "l"),
		raise(vector{name: "a string at the name", before: state([]any{"SET", "k", "x"}), err: "WRONGTYPE", untouched: true}, 9, "k"),
		raise(vector{name: "a list at the name", before: state([]any{"RPUSH", "k", "x"}), err: "WRONGTYPE", untouched: true}, 9, "k"),
		raise(vector{name: "not when readers are there", before: state(reads(rival, lease), expire("k", lease), counted("k", "7")), want: stands(0), untouched: true}, 9, "k"),
		raise(vector{name: "not when the owner reads", before: state(reads(me, lease), expire("k", lease), counted("k", "7")), want: stands(0), untouched: true}, 9, "k"),
		raise(vector{name: "two names, readers at the last", before: append(state(holds("a", me, "1"), counted("a", "7")), reads(rival, lease)),
			want: stands(0), untouched: true}, 9, "a", "k"),
	}
}

const (
	former     = "locker:0" // handed the lock over
	formerTomb = "quorumlock:released:" + former
)

// after asks for a grant in place of the former owner.
func after(a *scripts.AcquireArgs) {
	former := scripts.OwnerOf(former)
	a.Predecessor = &former
}

func takeOverVectors() []vector {
	const always = true
	handed := func(more ...[]any) [][]any {
		return append(state(ready, holds("k", former, "1"), expire("k", 5*time.Second), counted("k", "200")), more...)
	}
	two := named("k", "l")
	barred := text(formerTomb, "1")
	passed := scripts.AcquireReply{Outcome: scripts.Passed}
	waits := quarantined(20 * time.Second)
	waiting := markerOf(admitted(20*time.Second, false))
	return forAcquire([]vector{
		{name: "take over", before: handed(), call: acquire(after), want: granted(201), twice: true,
			after: []check{hash("k", me, "1"), ttl("k", lease), counter("k", "201"), barred, ttl(formerTomb, maxLease), absent(tomb)}},
		{name: "take over, by the clock", before: handed(), call: acquire(after, seeded(500)), want: granted(500),
			after: []check{hash("k", me, "1"), counter("k", "500")}},
		{name: "take over a higher depth", before: state(ready, holds("k", former, "3"), expire("k", lease)), call: acquire(after),
			want: granted(seed), after: []check{hash("k", me, "1")}},
		{name: "take over a longer lease", before: state(ready, holds("k", former, "1"), expire("k", time.Minute)), call: acquire(after),
			want: granted(seed), after: []check{ttl("k", lease)}},
		{name: "take over a key without a time to live", before: state(ready, holds("k", former, "1")), call: acquire(after),
			want: granted(seed), after: []check{ttl("k", lease)}},
		{name: "take over, and another waits", before: handed([]any{"SET", writing, rival, "PX", 1500}), call: acquire(after),
			want: granted(201), after: []check{hash("k", me, "1"), text(writing, rival)}},
		{name: "take over two names", before: handed(holds("l", former, "1"), expire("l", lease), counted("l", "300")),
			call: acquire(after, two), want: granted(301), twice: true,
			after: []check{hash("k", me, "1"), hash("l", me, "1"), ttl("l", lease), counter("k", "301"), counter("l", "301"), barred}},

		{name: "take over what is free", before: state(ready), call: acquire(after), want: passed, twice: true, after: []check{barred, absent("k")}},
		{name: "take over what another has", before: state(ready, holds("k", rival, "1"), expire("k", lease)), call: acquire(after),
			want: held(lease), untouched: true, twice: true},
		{name: "take over two names, one free", before: handed(), call: acquire(after, two), want: passed, after: []check{hash("k", former, "1"), barred}},
		{name: "take over two names, one another's", before: handed(holds("l", rival, "1"), expire("l", 8*time.Second)),
			call: acquire(after, two), want: held(8 * time.Second), untouched: true},
		{name: "take over what readers have", before: state(ready, reads(rival, lease), expire("k", lease)), call: acquire(after),
			want: byReaders(rival, lease, 1), untouched: true},
		{name: "take over a string", before: state(ready, []any{"SET", "k", "text"}), call: acquire(after), err: "WRONGTYPE", untouched: true},
		{name: "take over, released already", before: handed([]any{"SET", tomb, "1"}), call: acquire(after), untouched: true,
			want: scripts.AcquireReply{Outcome: scripts.Barred}},

		{name: "take over in quarantine", untouched: true, want: waits, call: acquire(after),
			before: state(waiting, holds("k", former, "1"), expire("k", lease))},
		{name: "take over under the marker of an earlier process", untouched: true, want: notAccepted(some), call: acquire(after),
			before: state(markerOf(admitted(0, always, of("other"))), holds("k", former, "1"), expire("k", lease))},
		{name: "take over from a node with other members", untouched: true, want: notAccepted(some), call: acquire(after),
			before: state(markerOf(admitted(0, always, theirMembers)), holds("k", former, "1"), expire("k", lease))},

		{name: "a repair replaces the predecessor", before: handed(), call: acquire(after, carrying(500), depth(2)), want: granted(500),
			twice: true, after: []check{hash("k", me, "2"), ttl("k", lease), counter("k", "500"), barred}},
		{name: "a repair takes what is free", before: state(ready), call: acquire(after, carrying(500)), want: granted(500),
			after: []check{hash("k", me, "1"), barred}},
		{name: "no repair in place of a predecessor in quarantine", untouched: true, want: waits, call: acquire(after, carrying(500)),
			before: state(waiting, holds("k", former, "1"), expire("k", lease))},
		{name: "re-entry of one who took over, in quarantine", want: granted(500), call: acquire(after, carrying(500), depth(2)),
			before: state(waiting, holds("k", me, "1"), expire("k", lease)), after: []check{hash("k", me, "2"), barred}},
	})
}

// A take-over shares no run: the run's script knows no predecessor.
func TestTakeOverSharesNoRun(t *testing.T) {
	testkit.Check(t, !acquire(after).CanShare(), "it shares a run")
}
