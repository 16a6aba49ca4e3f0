//go:build unix

package chaos

import (
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
)

// outOfReach are the masters that each of three clients does not reach. Of 3 masters each two of the
// clients have one in common, and of 5 too: votes for three holders are there, if each master has two.
var outOfReach = map[int][3][]int{3: {{2}, {0}, {1}}, 5: {{3, 4}, {0, 1}, {2, 4}}}

// sharedSlots: clients contend for the slots of a semaphore, some of them on bare majorities, while
// masters forget and clients are stopped.
func sharedSlots(r *run) {
	plan := contender.Plan{Slots: r.slots, Hold: 300 * time.Millisecond, Rest: 10 * time.Millisecond}
	var thin []*worker
	for k, places := range outOfReach[r.n] {
		way := r.apartFor([]string{"first client", "second client", "third client"}[k])
		for _, i := range places {
			r.cut(way, i)
		}
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
		r.must(r.kill(victim))
		r.let(r.lease / 3)
		r.must(r.restart(victim))
		stopped := crowd[round]
		r.stopClient(stopped)
		r.let(r.lease + r.lease/2)
		r.continueClient(stopped)
		r.let(r.lease)
	}
	r.available(time.Now(), r.lease+slack, "the last fault", crowd...)
}
