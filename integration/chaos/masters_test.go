//go:build unix

package chaos

import (
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
)

// minorityKilled: with a minority dead, the lock goes on at once. A probe with a name of its own tries all the time.
func minorityKilled(r *run) {
	crowd := r.crowd(3, contender.Plan{})
	probe := r.start(contender.Plan{Names: []string{"probe"}, Rest: 10 * time.Millisecond})
	r.acquires(time.Now(), soon, probe)
	r.let(time.Second)
	dying := time.Now()
	r.all(0, r.n/2, r.kill)
	dead := time.Now()
	first := r.acquires(dead, soon, probe)
	// Whoever waits may ask the dead first: a killed container says nothing.
	r.available(dead, 2*nodeTimeout, "the minority's death, of a name that three want", crowd...)
	r.let(2 * time.Second)
	before, after := slowest(probe, time.Time{}, dying), slowest(probe, dying, time.Now())
	r.note("calls of a name that nobody else wants: the first after the minority's death took %v, the slowest after its first kill %v, the slowest before %v",
		first.Took.Round(100*time.Microsecond), after.Round(100*time.Microsecond), before.Round(100*time.Microsecond))
	// A round trip, however busy the machine is; not a node's time-out.
	r.expect(first.Took < max(nodeTimeout/2, 2*before), "a call with a minority dead took a quorum's round trip, not %v", first.Took)
	r.all(0, r.n/2, r.restart)
	r.let(r.lease)
}

// slowest is the longest that a call took which returned a lock between the instants.
func slowest(w *worker, from, to time.Time) (longest time.Duration) {
	for _, p := range w.all() {
		if p.Did == contender.Acquired && (from.IsZero() || p.At > contender.At(from)) && p.At < contender.At(to) {
			longest = max(longest, p.Took)
		}
	}
	return longest
}

// majorityKilled: without a majority nobody acquires; when it is back, somebody does within one max lease and a second.
func majorityKilled(r *run) {
	r.crowd(3, contender.Plan{})
	r.acquires(time.Now(), soon)
	r.let(time.Second)
	r.all(0, r.n/2+1, r.kill)
	dead := time.Now()
	r.let(r.lease)
	alive := time.Now()
	r.all(0, r.n/2+1, r.restart)
	r.available(time.Now(), r.lease+time.Second, "the majority's return")
	for _, w := range r.workers {
		for _, p := range w.all() {
			called := p.At - int64(p.Took)
			r.expect(p.Did != contender.Acquired || called < contender.At(dead) || p.At > contender.At(alive), "nobody acquires without a majority")
		}
	}
	r.let(time.Second)
}

// rollingRestart: a lock that is held outlives the restart of every master, one after another, with a max lease between. They
// keep what they know on disk, or not, in turn.
func rollingRestart(r *run) {
	holder := r.gated(contender.Plan{})
	r.pass(holder, contender.Acquired)
	r.at(holder, contender.ToWrite)
	r.crowd(2, contender.Plan{Patience: r.lease})
	for i := range r.n {
		r.must(r.crash(i))
		r.let(r.lease + r.lease/2) // quarantine, and a round of renewals that repairs
	}
	r.heldThroughout(holder)
}

// heldThroughout wants that the holder, a gated worker that has acquired, never lost its lock, and that it can write; then it lets go.
func (r *run) heldThroughout(holder *worker) {
	for _, p := range holder.all() {
		r.expect(p.Did != contender.Lost, "the lock is held throughout: %s", p.Err)
	}
	wrote := r.pass(holder, contender.Wrote, contender.Withheld, contender.Stale)
	r.expect(wrote.Did == contender.Wrote, "the holder writes at the end: %s", wrote.Did)
	r.at(holder, contender.ToUnlock)
	r.pass(holder, contender.Released, contender.Unreleased)
	holder.order(contender.Stop)
	r.available(time.Now(), time.Second, "the release", r.workers[1:]...)
	r.let(time.Second)
}

// two lets A hold on a bare majority, the rest being out of A's sight, and has B, who sees all, ask over and over while something
// makes master 1 forget. A no longer sees that one either: it goes on, and is right to, until its deadline.
func two(r *run, forget func()) {
	out := r.apartFor("A")
	for i := r.n/2 + 1; i < r.n; i++ {
		r.must(r.cut(out, i))
	}
	all := r.apartFor("B")
	a := r.gated(contender.Plan{URLs: out.urls()})
	held := r.pass(a, contender.Acquired)
	r.at(a, contender.ToWrite)
	// A call of Lock asks at once, and then waits to be told of a release: here of none. So B's calls are short.
	b := r.start(contender.Plan{URLs: all.urls(), Hold: 200 * time.Millisecond, Rest: 20 * time.Millisecond, Patience: 60 * time.Millisecond})
	r.until(held, r.lease/3+r.lease/30) // just after A's first renewal
	r.must(r.cut(out, 0))
	forget()
	r.let(r.lease / 2)
	r.pass(a, contender.Wrote, contender.Stale, contender.Withheld)
	r.at(a, contender.ToUnlock)
	for i := range r.n {
		r.heal(out, i)
	}
	released := time.Now()
	a.order(contender.Go)
	a.order(contender.Stop)
	r.available(released, r.lease+time.Second, "A's release", b)
	r.let(time.Second / 2)
}

// amnesia: a master restarts without its memory while its vote counts.
func amnesia(r *run) { two(r, func() { r.must(r.crash(0)) }) }

// thinQuorum: a master is flushed while its vote counts.
func thinQuorum(r *run) { two(r, func() { r.must(r.flushAll(0)) }) }

// failover: a replica that does not have the lock takes a master's place.
func failover(r *run) {
	replica, err := r.replica(0)
	r.must(err)
	r.must(r.cutOff(replica))
	two(r, func() { r.must(r.promote(replica, 0)) })
}
