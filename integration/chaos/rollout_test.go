//go:build unix

package chaos

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/quorum"
)

// The locks alongside the one that all contend for.
const (
	heldName  = "held"  // held all the time, by one client after another
	staleName = "stale" // held by a client that never gets another list
	freeName  = "free"  // only clients with a wrong list ask for it
)

// twoLists is noted in the controls: the library's stale client has lost its lock.
const twoLists = "clients with the first list and with the last one held a lock at once"

// rollout is a change of the members, one at a time, with clients that roll over from each list to
// the next. A list is the places of its masters.
type rollout struct {
	*run
	lists [][]int
	wrong [][]int
	dead  bool // the last master of the first list no longer answers, until the last change is made

	operator *operator
	theirs   *paths // of the contenders that roll over
	faults   int    // so far
	stale    *worker
	ended    time.Time // when the first list was refused
}

func placesTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func replaceLive(r *run) {
	n := r.n
	r.rollOut(rollout{lists: [][]int{placesTo(n), placesTo(n + 1), append(placesTo(n-1), n)},
		wrong: [][]int{{0, n - 1, n}, placesTo(n + 1)[1:]}})
}

func replaceDead(r *run) {
	n := r.n
	r.rollOut(rollout{lists: [][]int{placesTo(n), placesTo(n - 1), append(placesTo(n-1), n)},
		wrong: [][]int{{0, n - 1, n}, placesTo(n + 1)[1:]}, dead: true})
}

func grow(r *run) {
	n := r.n
	r.rollOut(rollout{lists: [][]int{placesTo(n), placesTo(n + 1), placesTo(n + 2)},
		wrong: [][]int{{n - 1, n, n + 1}, placesTo(n + 1)[1:]}})
}

func (r *run) rollOut(o rollout) {
	o.run = r
	first, last := o.lists[0], o.lists[len(o.lists)-1]
	o.operator, o.theirs = &operator{run: r, first: first, way: r.apartFor("the operator")}, r.apartFor("contenders")
	crowd := r.crowd(2, contender.Plan{URLs: o.theirs.urls(first...)})
	holder := o.holder(first)
	r.did(holder, contender.Acquired)
	r.at(holder, contender.ToWrite)

	// The stale clients miss a minority: what they hold they hold on a bare majority.
	old := r.apartFor("stale clients")
	for i := 1; i < r.n-1 && !o.dead; i += 2 {
		old.Partition(i)
	}
	o.stale = r.holds(contender.Plan{URLs: old.urls(first...), Names: []string{staleName}})
	contends := r.crowd(1, contender.Plan{URLs: old.urls(first...)})[0]
	var intruders []*worker
	for _, list := range o.wrong {
		if r.kind == redsync {
			break // it would hold: this control is about the first list alongside the last
		}
		intruders = append(intruders, r.start(contender.Plan{URLs: r.urls(list...), Patience: r.lease / 2,
			Names: []string{name, heldName, staleName, freeName}, Rest: 100 * time.Millisecond}))
	}
	if o.dead {
		r.Freeze(r.n - 1)
	}
	for k, to := range o.lists[1:] {
		holder = o.change(o.lists[k], to, crowd, holder)
	}
	if o.dead { // it still has the first list
		r.Thaw(r.n - 1)
		r.let(r.lease)
	}
	next := r.holds(contender.Plan{URLs: r.urls(last...), Names: []string{staleName}})
	if !reported(o.stale, contender.Lost) {
		r.note(twoLists)
	}
	r.goesOn(next)
	r.withholds(o.stale)
	r.writes(holder)
	r.available(time.Now(), slack, "the last change", crowd...)
	o.judgeRefusals(contends, intruders)
	if r.ours() {
		r.expect(o.operator.halfway > 0, "a command is killed half-way")
		r.note("`quorumlock members` was killed %d times, %d of them with only some of the masters marked",
			o.operator.killed, o.operator.halfway)
	}
}

// holder starts a client that asks for the lock that is held all the time.
func (o *rollout) holder(list []int) *worker {
	w := o.gated(contender.Plan{URLs: o.urls(list...), Names: []string{heldName}})
	w.order(contender.Go)
	return w
}

// change makes one change of the members, and rolls the contenders over, with a fault before its
// commit and one after. It returns the next holder.
func (o *rollout) change(from, to []int, crowd []*worker, holder *worker) (next *worker) {
	nothing := func() {}
	early, late := o.rng.IntN(2) == 0, o.rng.IntN(2) == 0 // while a command is half-way
	o.operator.announces(from, to, func() {
		if early {
			o.during(nothing, from)
		}
	})
	roll := func() {
		for i, w := range crowd {
			crowd[i] = o.crowd(1, contender.Plan{URLs: o.theirs.urls(to...)})[0]
			o.acquires(time.Now(), soon, crowd[i])
			w.order(contender.Stop)
		}
	}
	if early {
		roll()
	} else {
		o.during(roll, from, to)
	}
	next = o.holder(to)
	o.let(o.lease / 4) // it waits
	o.writes(holder)
	o.did(next, contender.Acquired)
	o.at(next, contender.ToWrite)

	if o.ended.IsZero() {
		for _, p := range o.stale.all() {
			o.expect(p.Did != contender.Lost, "the stale client keeps its lock until the change is committed: %s", p.Err)
		}
	}
	o.operator.commits(to, func() {
		if late {
			o.during(nothing, to)
		}
	})
	if o.ended.IsZero() {
		o.ended = time.Now()
		_, err := o.stale.next(o.lease+slack, func(p contender.Report) bool { return p.Did == contender.Lost })
		o.expect(err == nil, "the stale client loses its lock at its deadline: %v", err)
	}
	if !late {
		o.during(nothing, to)
	}
	if o.kind == noRefusal { // also on a master that a fault has made forget
		o.operator.overwrite(o.operator.first, to)
	}
	return next
}

// during plays a fault while something happens, unless one of the lists has no master to spare.
// Without -chaos.full it plays one.
func (o *rollout) during(act func(), lists ...[]int) {
	spared := *full || o.faults < 1
	for _, list := range lists {
		alive := len(list)
		if o.dead && slices.Contains(list, o.n-1) {
			alive--
		}
		spared = spared && alive > len(list)/2+1
	}
	if !spared {
		act()
		return
	}
	// While the stale client may hold, a master that it misses.
	victim := 1
	if o.ours() && !o.ended.IsZero() {
		victim = o.rng.IntN(o.n - 1) // in all lists
	}
	o.faults++
	switch o.faults % 3 {
	case 1:
		o.Kill(victim)
		act()
		o.let(o.lease / 2)
		o.Restart(victim)
		o.let(o.lease + o.lease/2) // quarantine, and a renewal that repairs
	case 2:
		o.Freeze(victim)
		act()
		o.let(o.lease)
		o.Thaw(victim)
		o.let(o.lease / 2)
	default:
		o.theirs.Partition(victim)
		act()
		o.let(o.lease)
		o.theirs.Heal(victim)
	}
}

// judgeRefusals expects that clients with a wrong list never acquired, and the stale contender never
// by a call after its list was refused.
func (o *rollout) judgeRefusals(contends *worker, intruders []*worker) {
	held, refused, unavailable := 0, 0, 0
	for _, w := range append(intruders, contends) {
		for _, p := range w.all() {
			late := w != contends || p.Called() > contender.At(o.ended)
			switch {
			case !late:
			case p.Did == contender.Acquired:
				held++
			case p.Did != contender.Refused:
			case strings.Contains(p.Err, quorum.ErrMembership.Error()):
				refused++
			default:
				unavailable++
			}
		}
	}
	o.expect(held == 0, "clients with other lists never hold: they did %d times", held)
	o.expect(refused > 0, "clients with other lists are told of it")
	o.note("clients with wrong lists, and with the first one after its end, were refused %d times for their list, "+
		"and %d times because masters were away", refused, unavailable)
}
