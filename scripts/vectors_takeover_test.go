package scripts_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

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
	waits := scripts.AcquireReply{Outcome: scripts.Quarantined, Wait: 20 * time.Second}
	waiting := markerOf(admitted(20*time.Second, false))
	return forAcquire([]vector{
		{name: "take over", before: handed(), call: acquire(after), want: granted(201), twice: true,
			after: []check{hash("k", me, "1"), ttl("k", lease), counter("k", "201"), barred, ttl(formerTomb, maxLease), absent(tomb)}},
		{name: "take over, by the clock", before: handed(), call: acquire(after, seeded(500)), want: granted(500),
			after: []check{hash("k", me, "1"), counter("k", "500")}},
		{name: "take over a higher level", before: state(ready, holds("k", former, "3"), expire("k", lease)), call: acquire(after),
			want: granted(seed), after: []check{hash("k", me, "1")}},
		{name: "take over a longer lease", before: state(ready, holds("k", former, "1"), expire("k", time.Minute)), call: acquire(after),
			want: granted(seed), after: []check{ttl("k", lease)}},
		{name: "take over a key without a time to live", before: state(ready, holds("k", former, "1")), call: acquire(after),
			want: granted(seed), after: []check{ttl("k", lease)}},
		{name: "take over two names", before: handed(holds("l", former, "1"), expire("l", lease), counted("l", "300")),
			call: acquire(after, two), want: granted(301), twice: true,
			after: []check{hash("k", me, "1"), hash("l", me, "1"), ttl("l", lease), counter("k", "301"), counter("l", "301"), barred}},

		{name: "take over what is free", before: state(ready), call: acquire(after), want: passed, untouched: true, twice: true},
		{name: "take over what another has", before: state(ready, holds("k", rival, "1"), expire("k", lease)), call: acquire(after),
			want: held(lease), untouched: true, twice: true},
		{name: "take over two names, one free", before: handed(), call: acquire(after, two), want: passed, untouched: true},
		{name: "take over two names, one another's", before: handed(holds("l", rival, "1"), expire("l", 8*time.Second)),
			call: acquire(after, two), want: held(8 * time.Second), untouched: true},
		{name: "take over a string", before: state(ready, []any{"SET", "k", "text"}), call: acquire(after), err: "WRONGTYPE", untouched: true},
		{name: "take over, released already", before: handed([]any{"SET", tomb, "1"}), call: acquire(after), untouched: true,
			want: scripts.AcquireReply{Outcome: scripts.Barred}},

		{name: "take over in quarantine", untouched: true, want: waits, call: acquire(after),
			before: state(waiting, holds("k", former, "1"), expire("k", lease))},
		{name: "take over under the marker of an earlier process", untouched: true, want: notAccepted(some), call: acquire(after),
			before: state(markerOf(admitted(0, always, of("other"))), holds("k", former, "1"), expire("k", lease))},
		{name: "take over from a node with other members", untouched: true, want: notAccepted(some), call: acquire(after),
			before: state(markerOf(admitted(0, always, theirMembers)), holds("k", former, "1"), expire("k", lease))},

		{name: "a repair replaces the predecessor", before: handed(), call: acquire(after, carrying(500), level(2)), want: granted(500),
			twice: true, after: []check{hash("k", me, "2"), ttl("k", lease), counter("k", "500"), barred}},
		{name: "a repair takes what is free", before: state(ready), call: acquire(after, carrying(500)), want: granted(500),
			after: []check{hash("k", me, "1"), barred}},
		{name: "no repair in place of a predecessor in quarantine", untouched: true, want: waits, call: acquire(after, carrying(500)),
			before: state(waiting, holds("k", former, "1"), expire("k", lease))},
		{name: "re-entry of one who took over, in quarantine", want: granted(500), call: acquire(after, carrying(500), level(2)),
			before: state(waiting, holds("k", me, "1"), expire("k", lease)), after: []check{hash("k", me, "2"), barred}},
	})
}

// A take-over shares no run: the run's script knows no predecessor.
func TestTakeOverSharesNoRun(t *testing.T) {
	if acquire(after).CanShare() {
		t.Error("it shares a run")
	}
}
