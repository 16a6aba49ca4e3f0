package scripts_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// foreign holds hashes at "k" that are no locks.
var foreign = []struct {
	name string
	make [][]any
}{
	{"a hash of several fields", state([]any{"HSET", "k", "a", "1", "b", "2"}, expire("k", lease))},
	{"a hash of several owners", state([]any{"HSET", "k", me, "1", rival, "1"})},
	{"a hash with text", state(holds("k", "name", "bob"))},
	{"a hash with text, for a while", state(holds("k", "name", "bob"), expire("k", lease))},
	{"a hash with text in a field like an owner", state(holds("k", me, "bob"), expire("k", lease))},
	{"a hash with a number", state(holds("k", "visits", "17"))},
	{"a hash with a number in a field that begins with a colon", state(holds("k", ":17", "1"))},
	{"a hash with a number in a field that ends in a colon", state(holds("k", "visits:", "17"))},
	{"a hash with a number in a field with digits and more", state(holds("k", "visits:17 ", "17"))},
	{"a hash with a number in no field, for a while", state(holds("k", "", "1"), expire("k", lease))},
	{"a hash with nothing", state(holds("k", me, ""))},
	{"a hash with zero", state(holds("k", me, "0"))},
	{"a hash with an owner that is too long", state(holds("k", strings.Repeat("x", 1023)+":1", "1"), expire("k", lease))},
	{"a hash with a negative number", state(holds("k", me, "-1"))},
	{"a hash with a fraction", state(holds("k", me, "1.5"))},
	{"a hash with a number that begins with zero", state(holds("k", me, "01"))},
	{"a hash with a number too long", state(holds("k", me, "1000000000"))},
}

func inspectVectors() []vector {
	inspect := func(v vector, name string) vector {
		v.call, v.untouched = scripts.Inspect(scripts.NewName(name)), true
		v.parse = parseInspect
		return v
	}
	type reply = scripts.InspectReply
	has := admitted(0, true)(0)
	vectors := []vector{
		inspect(vector{name: "nothing", want: reply{}}, "k"),
		inspect(vector{name: "held", before: state(ready, holds("k", me, "3"), expire("k", lease), counted("k", "1800000000000002")),
			want: reply{Owner: me, Depth: 3, TTL: lease, Token: 1800000000000002, Marker: has}}, "k"),
		inspect(vector{name: "held for ever", before: state(holds("k", me, "1")), want: reply{Owner: me, Depth: 1, TTL: -1}}, "k"),
		inspect(vector{name: "free, with a past", before: state(ready, counted("k", "7")), want: reply{Token: 7, Marker: has}}, "k"),
		inspect(vector{name: "a hash at the marker", before: state([]any{"HSET", marker, "x", "y"}), err: "WRONGTYPE"}, "k"),
		inspect(vector{name: "an application's counter, with a time to live", before: state(holds("k", "visits", "5"), expire("k", lease)),
			err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "held as often as can be", before: state(holds("k", me, "999999999")),
			want: reply{Owner: me, Depth: 999999999, TTL: -1}}, "k"),
		inspect(vector{name: "a long marker", before: state([]any{"SET", marker, strings.Repeat("x", 65536)}),
			want: reply{Marker: strings.Repeat("x", 65536)}}, "k"),
		inspect(vector{name: "a marker that is too long", before: state([]any{"SET", marker, strings.Repeat("x", 65537)}), err: "marker is too long"}, "k"),
		inspect(vector{name: "a malformed owner", before: state(holds("k", strings.Repeat("x", 5000), "1")), err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "a malformed depth", before: state(holds("k", me, strings.Repeat("1", 5000))), err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "a counter that is too long", before: state(counted("k", strings.Repeat("1", 5000))), err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "a counter that is no number", before: state(counted("a", "x")),
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`}, "a"),
		inspect(vector{name: "a counter that is nan", before: state(counted("a", "nan")),
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`}, "a"),
		inspect(vector{name: "a counter that no lock reaches", before: state(counted("k", "9007199254740990")), err: tooHigh("k")}, "k"),
		inspect(vector{name: "a counter that is negative", before: state(counted("k", "-5")), want: reply{}}, "k"),
		inspect(vector{name: "a list at the counter", before: state([]any{"RPUSH", counterOf("a"), "x"}),
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`}, "a"),
		inspect(vector{name: "free, with a neighbour's past", before: state(counted(neighbour, "7")), want: reply{Token: 7}}, near),
		inspect(vector{name: "a string at the name", before: state([]any{"SET", "k", "x"}), err: "WRONGTYPE"}, "k"),
		inspect(vector{name: "a name byte for byte", before: state(holds("a\x00\nb", me, "1"), expire("a\x00\nb", lease)),
			want: reply{Owner: me, Depth: 1, TTL: lease}}, "a\x00\nb"),
	}
	for _, h := range foreign {
		vectors = append(vectors, inspect(vector{name: h.name, before: state(h.make...), err: noLock}, "k"))
	}
	return vectors
}

func slotsVectors() []vector {
	read := func(v vector, semaphore string, n int) vector {
		v.call, v.untouched = scripts.Slots(semaphore, n), true
		return v
	}
	slot := func(k int, d time.Duration) [][]any {
		key := scripts.SlotName("k", k)
		return state(holds(key, rival, "1"), expire(key, d))
	}
	type reply = scripts.SlotsReply
	return []vector{
		read(vector{name: "none taken", want: reply{Free: []int{0, 1, 2}, Wait: -1}}, "k", 3),
		read(vector{name: "some taken", before: slices.Concat(slot(0, lease), slot(2, 5*time.Second)),
			want: reply{Free: []int{1}, Wait: 5 * time.Second}}, "k", 3),
		read(vector{name: "all taken", before: slices.Concat(slot(0, lease), slot(1, lease)), want: reply{Wait: lease}}, "k", 2),
		read(vector{name: "all taken, the first for longer", before: slices.Concat(slot(0, lease), slot(1, 5*time.Second)), want: reply{Wait: 5 * time.Second}}, "k", 2),
		read(vector{name: "all taken, the last for longer", before: slices.Concat(slot(0, 5*time.Second), slot(1, lease)), want: reply{Wait: 5 * time.Second}}, "k", 2),
		read(vector{name: "of more slots", before: slices.Concat(slot(0, lease), slot(7, lease)), want: reply{Free: []int{1}, Wait: lease}}, "k", 2),
		read(vector{name: "of another semaphore", before: slot(0, lease), want: reply{Free: []int{0}, Wait: -1}}, "l", 1),
		read(vector{name: "taken for ever", before: state(holds("quorumlock:slot:0:k", rival, "1")), want: reply{Free: []int{1}, Wait: -1}}, "k", 2),
		read(vector{name: "one for ever", before: append(slot(1, lease), holds("quorumlock:slot:0:k", rival, "1")), want: reply{Wait: lease}}, "k", 2),
		read(vector{name: "a key of another type", before: state([]any{"SET", "quorumlock:slot:0:k", "x"}), want: reply{Free: []int{1}, Wait: -1}}, "k", 2),
		read(vector{name: "with a waiter", want: reply{Free: []int{0}, Wait: -1, Waiting: 1}}, "crowded", 1),
		read(vector{name: "a name with a brace", want: reply{Free: []int{0}, Wait: -1}}, "a{b", 1),
	}
}

// parseInspect leaves out the server's time, which is checked to be one.
func parseInspect(v any) (any, error) {
	parsed, err := typed(scripts.Inspect(scripts.NewName("k")), v)
	reply, _ := parsed.(scripts.InspectReply)
	if year := 365 * 24 * time.Hour; err == nil && (reply.Now < 50*year || reply.Now > 200*year) {
		return nil, fmt.Errorf("the server's time is %v", reply.Now)
	}
	reply.Now = 0
	return reply, err
}

func forceVectors() []vector {
	force := func(v vector, owners ...string) vector {
		var barred []scripts.Owner
		for _, owner := range owners {
			barred = append(barred, scripts.OwnerOf(owner))
		}
		v.call = scripts.Force(scripts.NewName("k"), barred, 0, maxLease)
		return v
	}
	freed := []message{{"redisson_lock__channel:{k}", "0"}}
	rivalTomb := "quorumlock:released:" + rival
	vectors := []vector{
		force(vector{name: "deletes", before: state(holds("k", me, "3"), expire("k", lease), counted("k", "7")), want: true, published: freed,
			after: []check{absent("k", tomb), text(counterOf("k"), "7")}}),
		force(vector{name: "deletes a lock without a time to live", before: state(holds("k", me, "1")), want: true, published: freed,
			after: []check{absent("k")}}),
		force(vector{name: "leaves an application's counter, with a time to live", before: state(holds("k", "visits", "5"), expire("k", lease)),
			err: "QUORUMLOCK", untouched: true}),
		force(vector{name: "nothing there", before: state(counted("k", "7")), want: false, untouched: true}),
		force(vector{name: "bars owners", before: state(holds("k", me, "1"), expire("k", lease)), want: true, published: freed,
			after: []check{absent("k"), ttl(tomb, maxLease), ttl(rivalTomb, maxLease)}}, me, rival),
		force(vector{name: "bars owners where nothing is", want: false, after: []check{absent("k"), ttl(tomb, maxLease)}}, me),
		force(vector{name: "a string is not deleted", before: state([]any{"SET", "k", "x"}), err: "WRONGTYPE", untouched: true}, me),
		force(vector{name: "a list is not deleted", before: state([]any{"RPUSH", "k", "x"}), err: "WRONGTYPE", untouched: true}),
	}
	ofMe := func(v vector) vector {
		v.call = scripts.ForceOwner(scripts.NewName("k"), scripts.OwnerOf(me), maxLease)
		v.want = scripts.ReleaseReply{Found: len(v.published), Heard: len(v.published)}
		v.after = append(v.after, ttl(tomb, maxLease))
		v.twice = len(v.published) == 0
		return v
	}
	vectors = append(vectors,
		ofMe(vector{name: "of the owner", before: state(holds("k", me, "3"), expire("k", lease)), published: freed, after: []check{absent("k")}}),
		ofMe(vector{name: "of the owner, a reader", before: state(reads(me, lease), expire("k", lease)), published: freed, after: []check{absent("k")}}),
		ofMe(vector{name: "of the owner, where its successor is", before: state(holds("k", rival, "1"), expire("k", lease)), after: []check{hash("k", rival, "1")}}),
		ofMe(vector{name: "of the owner, where readers are", before: state(reads(rival, lease), expire("k", lease)), after: []check{only(rival, lease)}}),
		ofMe(vector{name: "of the owner, a string", before: state([]any{"SET", "k", "x"}), after: []check{text("k", "x")}}),
	)
	for _, h := range foreign {
		vectors = append(vectors, force(vector{name: h.name + " is not deleted", before: state(h.make...), err: noLock, untouched: true}, me))
	}
	return vectors
}

// farAhead is after any instant at which a vector runs.
const farAhead = 200 * 365 * 24 * time.Hour

func lookVectors() []vector {
	look := func(v vector) vector {
		v.call, v.untouched = scripts.Look(), true
		v.parse = func(reply any) (any, error) {
			parsed, err := typed(v.call, reply)
			found, _ := parsed.(scripts.LookReply)
			found.Now = 0
			return found, err
		}
		return v
	}
	type reply = scripts.LookReply
	return []vector{
		look(vector{name: "nothing", want: reply{Process: process}}),
		look(vector{name: "a marker", before: state(ready), want: reply{Marker: admitted(0, true)(0), Process: process}}),
		look(vector{name: "a text that is no marker", before: state([]any{"SET", marker, "x"}), want: reply{Marker: "x", Process: process}}),
		look(vector{name: "a hash at the marker", before: state([]any{"HSET", marker, "x", "y"}), err: "WRONGTYPE"}),
		look(vector{name: "a text of 100,000 bytes", before: state([]any{"SET", marker, strings.Repeat("x", 100_000)}), err: "QUORUMLOCK"}),
	}
}

func markVectors() []vector {
	mark := func(v vector, read string, written scripts.Marker, grants, change scripts.When) vector {
		seen := scripts.Seen{Process: process, Marker: read}
		if v.name == "not in another process" {
			seen.Process.Run = "another"
		}
		v.call = scripts.Mark(seen, written, grants, change, cmp.Or(v.last, farAhead))
		v.parse = func(reply any) (any, error) {
			parsed, err := typed(v.call, reply)
			wrote, _ := parsed.(scripts.MarkReply)
			return wrote.Written, err
		}
		return v
	}
	m := scripts.Marker{Generation: 4, Members: ours, Next: theirs}
	fresh := scripts.Marker{Generation: 3, Members: ours, Next: none}
	has := admitted(0, true)(0)
	long := scripts.At(0)
	return []vector{
		mark(vector{name: "a blank node", want: true, after: []check{marked(maxLease, ours), ttl(marker, -1)}}, "", fresh, scripts.In(maxLease), long),
		mark(vector{name: "in place of the one that was read", before: state(ready), want: true,
			after: []check{text(marker, "1234 "+process.String()+strings.TrimPrefix(
				scripts.Marker{Process: process, Generation: 4, Members: ours, Next: theirs, Change: 5 * time.Second}.String(), "0 "+process.String()))}},
			has, m, scripts.At(1234*time.Millisecond), scripts.At(5*time.Second)),
		mark(vector{name: "not in place of another", before: state(ready), want: false, untouched: true, twice: true}, "", m, long, long),
		mark(vector{name: "not when it is late", last: time.Hour, want: false, untouched: true, twice: true}, "", m, long, long),
		mark(vector{name: "not in another process", before: state(ready), want: false, untouched: true, twice: true}, has, m, long, long),
		mark(vector{name: "not in place of none", want: false, untouched: true, twice: true}, has, m, long, long),
		mark(vector{name: "the next change waits", before: state(ready), want: true, after: []check{waits(maxLease)}}, has, fresh, long, scripts.In(maxLease)),
		mark(vector{name: "names byte for byte", want: true, after: []check{marked(maxLease, scripts.NewList("a b", "c,d%\n", "é"))}}, "",
			scripts.Marker{Generation: 3, Members: scripts.NewList("c,d%\n", "é", "a b"), Next: none}, scripts.In(maxLease), long),
		mark(vector{name: "a hash at the marker", before: state([]any{"HSET", marker, "x", "y"}), err: "WRONGTYPE", untouched: true}, "", m, long, long),
	}
}
