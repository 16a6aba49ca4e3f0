//go:build unix

package chaos

import (
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
)

func frozenMaster(r *run) {
	a := r.gated(contender.Plan{})
	probe := r.start(contender.Plan{Names: []string{"probe"}, Rest: 10 * time.Millisecond})
	r.acquires(time.Now(), soon, probe)
	freezing := time.Now()
	ended := r.ping(r.n/2, r.n)
	defer ended()
	r.Freeze(placesTo(r.n / 2)...)
	r.pass(a, contender.Acquired)
	r.at(a, contender.ToWrite)
	r.let(r.lease)
	ping := ended()
	before, slow := slowest(probe, time.Time{}, freezing), slowest(probe, freezing, time.Now())
	r.waitsForNoDead(slow, before, ping, "with a minority frozen, the slowest")
	r.Thaw(placesTo(r.n / 2)...)
	r.let(r.lease / 2)

	b := r.start(contender.Plan{Hold: 200 * time.Millisecond, Rest: 20 * time.Millisecond})
	r.Freeze(placesTo(r.n/2 + 1)...)
	r.let(r.lease + r.lease/3)
	r.Thaw(placesTo(r.n/2 + 1)...)
	r.available(time.Now(), r.lease+slack, "the thaw", b)
	r.let(time.Second / 2)
	r.withholds(a)
	r.leaves(a)
	a.order(contender.Stop)
	r.let(time.Second / 2)
}

func pausedClient(r *run) {
	a := r.holds(contender.Plan{Careless: true})
	r.let(r.lease / 2)
	r.stopClient(a)
	others := r.crowd(2, contender.Plan{})
	r.available(time.Now(), r.lease+slack, "the client stopped", others...)
	r.let(time.Second)
	a.order(contender.Go)
	r.continueClient(a)
	_, err := a.next(soon, func(p contender.Report) bool { return p.Did == contender.Stale })
	r.expect(err == nil, "the register refuses A's write: %v", err)
	r.at(a, contender.ToUnlock)
	r.leaves(a)
	a.order(contender.Stop)
	// And many times, at random points.
	for range 4 {
		w := others[r.rng.IntN(len(others))]
		r.stopClient(w)
		r.let(r.lease/2 + r.below(r.lease))
		r.continueClient(w)
		r.let(r.lease / 4)
	}
}

func restartingClients(r *run) {
	const size = 6
	alive := r.crowd(size, contender.Plan{Flows: 2})
	r.acquires(time.Now(), soon)
	for range 16 {
		at := r.rng.IntN(size)
		if r.rng.IntN(4) == 0 {
			r.happened("end in good order", "client %d", alive[at].plan.Client)
			alive[at].order(contender.Stop)
		} else {
			r.killClient(alive[at])
		}
		alive[at] = r.crowd(1, contender.Plan{Flows: 2})[0]
		r.let(150 * time.Millisecond)
	}
	r.available(time.Now(), r.lease+slack, "the last restart", alive...)
	r.let(time.Second)
}

func cancelled(r *run) {
	way := r.apartFor("clients")
	way.Slow(20*time.Millisecond, 20*time.Millisecond, placesTo(r.n)...)
	r.crowd(3, contender.Plan{URLs: way.urls(), Patience: 45 * time.Millisecond, Rest: 5 * time.Millisecond, Hold: 10 * time.Millisecond})
	patient := r.start(contender.Plan{URLs: way.urls(), Patience: soon, Hold: 10 * time.Millisecond, Rest: 20 * time.Millisecond})
	r.let(4 * time.Second)
	r.available(time.Now(), 2*slack, "4 s of this", patient)
}

// outOfReach are the masters that each of three clients does not reach. Of 3 masters each two of the
// clients have one in common, and of 5 too: votes for three holders are there, if each master has two.
var outOfReach = map[int][3][]int{3: {{2}, {0}, {1}}, 5: {{3, 4}, {0, 1}, {2, 4}}}

func sharedSlots(r *run) {
	plan := contender.Plan{Slots: r.slots, Hold: 300 * time.Millisecond, Rest: 10 * time.Millisecond}
	var thin []*worker
	for k, places := range outOfReach[r.n] {
		way := r.apartFor([]string{"first client", "second client", "third client"}[k])
		way.Partition(places...)
		plan.URLs = way.urls()
		thin = append(thin, r.crowd(1, plan)...)
	}
	r.acquires(time.Now(), soon, thin...)
	r.let(3 * time.Second)
	plan.URLs = nil
	crowd := r.crowd(3, plan)
	r.acquires(time.Now(), soon, crowd...)
	r.let(time.Second)
	for round := range 3 {
		victim := r.rng.IntN(r.n)
		r.Kill(victim)
		r.let(r.lease / 3)
		r.Restart(victim)
		stopped := crowd[round]
		r.stopClient(stopped)
		r.let(r.lease + r.lease/2)
		r.continueClient(stopped)
		r.let(r.lease)
	}
	r.available(time.Now(), r.lease+slack, "the last fault", crowd...)
}
