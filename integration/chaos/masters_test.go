//go:build unix

package chaos

import (
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
)

func minorityKilled(r *run) {
	crowd := r.crowd(3, contender.Plan{})
	probe := r.start(contender.Plan{Names: []string{"probe"}, Rest: 10 * time.Millisecond})
	r.acquires(time.Now(), soon, probe)
	r.let(time.Second)
	dying := time.Now()
	ended := r.ping(r.n/2, r.n)
	defer ended()
	r.Kill(placesTo(r.n / 2)...)
	dead := time.Now()
	first := r.acquires(dead, soon, probe)
	ping := ended()
	// A waiter may ask a dead master first, and a killed container does not answer.
	r.available(dead, 2*nodeTimeout, "the minority's death, of a contended name", crowd...)
	r.let(2 * time.Second)
	before, after := slowest(probe, time.Time{}, dying), slowest(probe, dying, time.Now())
	r.note("the slowest call of an uncontended name after the first kill: %v", after.Round(100*time.Microsecond))
	r.waitsForNoDead(first.Took, before, ping, "the first after the minority's death")
	r.Restart(placesTo(r.n / 2)...)
	r.let(r.lease)
}

// waitsForNoDead expects that a call of an uncontended name took a quorum's round trip, not a node's timeout. The
// slowest call before, and the slowest ping of a live master meanwhile, show how busy the machine is.
func (r *run) waitsForNoDead(took, before, ping time.Duration, call string) {
	r.t.Helper()
	r.note("calls of an uncontended name: %s took %v, the slowest before %v; the slowest ping of a live master meanwhile %v",
		call, took.Round(100*time.Microsecond), before.Round(100*time.Microsecond), ping.Round(100*time.Microsecond))
	r.expect(took < max(nodeTimeout/2, 2*before, 2*ping), "calls of an uncontended name take a quorum's round trip: %s took %v", call, took)
}

// ping asks the masters of these places again and again, each time by a new connection, until ended is called.
// ended returns how long one of them took at most.
func (r *run) ping(from, to int) (ended func() time.Duration) {
	stop := make(chan struct{})
	var asking sync.WaitGroup
	each := make([]time.Duration, to)
	for i := from; i < to; i++ {
		asking.Go(func() {
			for {
				began := time.Now()
				if err := r.do(i, "PING"); err != nil {
					r.t.Error(err)
				}
				each[i] = max(each[i], time.Since(began))
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	return sync.OnceValue(func() time.Duration {
		close(stop)
		asking.Wait()
		return slices.Max(each)
	})
}

// slowest is the longest successful call of Lock between the instants.
func slowest(w *worker, from, to time.Time) (longest time.Duration) {
	for _, p := range acquired(w) {
		if (from.IsZero() || p.At > contender.At(from)) && p.At < contender.At(to) {
			longest = max(longest, p.Took)
		}
	}
	return longest
}

func majorityKilled(r *run) {
	r.crowd(3, contender.Plan{})
	r.acquires(time.Now(), soon)
	r.let(time.Second)
	r.Kill(placesTo(r.n/2 + 1)...)
	dead := time.Now()
	r.let(r.lease)
	alive := time.Now()
	r.Restart(placesTo(r.n/2 + 1)...)
	r.available(time.Now(), r.lease+slack, "the majority's return")
	for _, p := range acquired(r.workers...) {
		r.expect(p.Called() < contender.At(dead) || p.At > contender.At(alive), "no client acquires without a majority")
	}
	r.let(time.Second)
}

func rollingRestart(r *run) {
	holder := r.holds(contender.Plan{})
	r.crowd(2, contender.Plan{Patience: r.lease})
	for i := range r.n {
		r.crash(i)
		r.let(r.lease + r.lease/2) // quarantine, and a renewal that repairs
	}
	r.heldThroughout(holder)
}

// heldThroughout expects that the holder never lost its lock, and that the lock is available after
// its release.
func (r *run) heldThroughout(holder *worker) {
	r.writes(holder)
	r.available(time.Now(), slack, "the release", r.workers[1:]...)
	r.let(time.Second)
}

// writes expects that the holder, a gated worker that has acquired, never lost its lock and can
// write. Then it releases the lock.
func (r *run) writes(holder *worker) {
	for _, p := range holder.all() {
		r.expect(p.Did != contender.Lost, "the lock is held throughout: %s", p.Err)
	}
	did := r.goesOn(holder)
	r.expect(did == contender.Wrote, "the holder writes at the end: %s", did)
	r.leaves(holder)
	holder.order(contender.Stop)
}

// forgetWhileHeld: A holds on a bare majority, cut off from the other masters. B reaches all
// masters, and asks over and over while forget makes master 1 forget. A is then cut off from master
// 1 too. It rightly goes on until its deadline.
func forgetWhileHeld(r *run, forget func()) {
	out := r.apartFor("A")
	out.Partition(placesTo(r.n)[r.n/2+1:]...)
	all := r.apartFor("B")
	a := r.holds(contender.Plan{URLs: out.urls()})
	// A call of Lock would ask one master first, the same for all clients, and others only if that one grants: it may be
	// one that A holds.
	b := r.start(contender.Plan{URLs: all.urls(), Hold: 200 * time.Millisecond, Rest: 20 * time.Millisecond, Once: true})
	held := time.Duration(contender.Now() - acquired(a)[0].At)
	r.let(r.lease/3 + r.lease/30 - held) // just after A's first renewal
	out.Partition(0)
	forget()
	r.let(r.lease / 2)
	r.goesOn(a)
	healAll(out)
	released := time.Now()
	a.order(contender.Go)
	a.order(contender.Stop)
	r.available(released, r.lease+slack, "A's release", b)
	r.let(time.Second / 2)
}

func amnesia(r *run) { forgetWhileHeld(r, func() { r.crash(0) }) }

func thinQuorum(r *run) { forgetWhileHeld(r, func() { r.Flush(0) }) }

func toStaleReplica(r *run) {
	replica := r.Replica(0)
	r.happened("replica cut off", "%s", replica.Addr())
	_, err := replica.Do("REPLICAOF", "127.0.0.1", "1") // where no server listens: it keeps its data
	r.must(err)
	forgetWhileHeld(r, func() { r.Promote(replica, 0) })
}
