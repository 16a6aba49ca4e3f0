//go:build unix

package chaos

import (
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
)

func partitionOfHolder(r *run) {
	out := r.apartFor("A")
	a := r.holds(contender.Plan{URLs: out.urls()})
	others := r.crowd(2, contender.Plan{})
	r.let(r.lease / 2)
	out.Partition(placesTo(r.n)...)
	r.available(time.Now(), r.lease+slack, "the partition", others...)
	r.withholds(a)
	r.leaves(a)
	healAll(out)
	a.order(contender.Go)
	r.let(time.Second)
}

func partitionOfClients(r *run) {
	left, right := r.apartFor("left"), r.apartFor("right")
	ls := r.crowd(2, contender.Plan{URLs: left.urls()})
	rs := r.crowd(2, contender.Plan{URLs: right.urls()})
	r.acquires(time.Now(), soon)
	half := r.n / 2
	split := func(few, many *paths, without, with []*worker) {
		many.Partition(placesTo(half)...)
		few.Partition(placesTo(r.n)[half:]...)
		began := time.Now()
		r.available(began, r.lease+slack, "the split to "+many.group, with...)
		r.let(time.Second)
		for _, p := range acquired(without...) {
			r.expect(p.Called() < contender.At(began), "%s acquires nothing from a minority", few.group)
		}
		healAll(left, right)
	}
	split(left, right, ls, rs)
	split(right, left, rs, ls)
	for i := range half + 1 {
		left.LoseReplies(i)
		right.LoseRequests(r.n - 1 - i)
	}
	r.let(r.lease)
	healAll(left, right)
	r.available(time.Now(), r.lease+slack, "loss in one direction")
	r.Partition(placesTo(half + 1)...)
	r.let(r.lease)
	r.Heal(placesTo(half + 1)...)
	// The kernel resends lost data with growing pauses: 1 s and more.
	r.available(time.Now(), r.lease+5*slack, "the masters' return to the network")
	r.let(time.Second)
}

func slowMaster(r *run) {
	way := r.apartFor("clients")
	r.crowd(3, contender.Plan{URLs: way.urls()})
	r.acquires(time.Now(), soon)
	way.Slow(100*time.Millisecond, 50*time.Millisecond, 0)
	r.available(time.Now(), slack, "one master became slow")
	r.let(2 * time.Second)
	way.Slow(100*time.Millisecond, 50*time.Millisecond, placesTo(r.n/2 + 1)[1:]...)
	r.available(time.Now(), 2*slack, "a majority became slow")
	r.let(2 * time.Second)
	healAll(way)
	r.let(time.Second / 2)
}

func lostReplies(r *run) {
	out := r.apartFor("A")
	majority := r.n/2 + 1
	a := r.gated(contender.Plan{URLs: out.urls(), Patience: r.lease})
	b := r.start(contender.Plan{Hold: 50 * time.Millisecond, Rest: 50 * time.Millisecond})
	r.acquires(time.Now(), soon, b)

	out.LoseReplies(placesTo(majority)...)
	asked := time.Now()
	did := r.pass(a, contender.Acquired, contender.Refused)
	r.expect(did.Did == contender.Refused, "A does not acquire without replies: %s", did.Did)
	r.available(asked, r.lease+slack, "A asked", b)
	healAll(out)
	r.available(time.Now(), r.lease+slack, "A's acquire", b)

	again := func() { // until A acquires: B contends
		for range 3 {
			r.at(a, contender.ToLock)
			if did = r.pass(a, contender.Acquired, contender.Refused); did.Did == contender.Acquired {
				r.at(a, contender.ToWrite)
				return
			}
		}
		r.need(false, "A acquires when it gets replies again")
	}
	again()
	out.LoseReplies(placesTo(majority - 1)...)
	r.let(2 * r.lease)
	r.expect(!reported(a, contender.Lost), "A renews with replies of a majority")
	healAll(out)
	out.LoseReplies(placesTo(majority)...)
	r.available(time.Now(), 2*r.lease+slack, "the replies to A's renewals were lost", b)
	healAll(out)
	r.withholds(a)
	r.leaves(a)
	again()
	r.goesOn(a)
	out.LoseReplies(placesTo(majority)...)
	released := time.Now()
	a.order(contender.Go)
	r.available(released, r.lease+slack, "A's release, whose replies are lost", b)
	healAll(out)
	r.let(time.Second / 2)
}
