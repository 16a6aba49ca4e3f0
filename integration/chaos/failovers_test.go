//go:build unix

package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/failover"
	"github.com/quorumlock/quorumlock/internal/poll"
)

const failoverLease = 3 * time.Second

// failovers are the schedules in which Sentinels promote replicas. On 3 masters two of them fail over.
func failovers() []scenario {
	one := []int{1, 3}
	all := []scenario{
		{name: "failover: primary killed", play: failoverKilled,
			shows: "The primary is killed. Sentinels promote its replica, and clients follow. It comes back, empty, as a replica; then clients acquire again."},
		{name: "failover: primary stands still", play: failoverFrozen,
			shows: "The primary stands still until its replica is promoted and that one's quarantine is over. It goes on with clients that stayed beside it, and with what its replica and its clients had said meanwhile, but out of reach of the Sentinels. In the end they make it a replica."},
		{name: "failover: holder stays beside the old primary", play: failoverHolderStays,
			shows: "The primary is cut off from its replica and the Sentinels, not from the clients beside it, of which one holds. The replica is promoted, and the other clients follow it. Then what was held back between them arrives."},
		{name: "failover: holder follows the new primary", play: failoverHolderFollows,
			shows: "The same, where the holder follows, and clients beside the old primary ask for its lock."},
		{name: "failover: by command", play: failoverByCommand,
			shows: "SENTINEL FAILOVER, three times, under clients whose address moves at once, and others whose connections stay."},
		{name: "failover: replica stands still", play: replicaStandsStill,
			shows: "The replica stands still for more than a max lease. Then it runs, and its link to the primary is silent for as long, and what was sent meanwhile arrives. Nobody is promoted."},
		{name: "failover: within a failover", play: failoverTwice,
			shows: "The primary is killed, and as soon as its replica is promoted that one stands still, while the old one comes back, empty."},
		{name: "failover: walk", play: failoverWalk,
			shows: "All of these faults, masters and times by seed, with a client beside each process, some that follow at once, and some whose connections stay."},
		{name: "failover: wild walk", play: failoverWildly,
			shows: "Any process is killed, frozen or isolated, any link falls silent, a replica is promoted by command, and a process is told to follow another or none, at random by seed, in groups of up to four, with a client beside each process, some that follow at once, and some whose connections stay. Then all is healed, in any order."},
	}
	for i := range all {
		all[i].lease, all[i].replicas, all[i].on = failoverLease, 1, one
	}
	all = append(all, scenario{name: "failover: each fault in turn", play: failoversInTurn, lease: time.Second, replicas: 1, on: one[:1],
		shows: "One master, with a client beside each process and two that follow: the primary is cut off, then frozen; a failover by command; the primary is killed; the replica stands still."})
	two := []scenario{
		{name: "failover: two replicas, within a failover", play: failoverTwice,
			shows: "Of a primary with two replicas one process after another is killed, until the third one is the primary. Then the others come back."},
		{name: "failover: two replicas, and one goes back and forth", play: replicaGoesBack,
			shows: "The primary and one replica are cut off from the other replica and the Sentinels, and that other one is promoted. The first one follows it, and then the old primary again. Clients found the deployment."},
		{name: "failover: two replicas, wild walk", play: failoverWildly, shows: "The same, with two replicas."},
	}
	for i := range two {
		two[i].lease, two[i].replicas, two[i].on, two[i].founded = failoverLease, 2, one[:1], true
	}
	return append(all, two...)
}

// crowdOn are clients that hold the lock for short times.
func (r *run) crowdOn(n int, by *paths) []*worker {
	return r.crowd(n, contender.Plan{URLs: by.urls(), Patience: r.lease})
}

func failoverKilled(r *run) {
	crowd := r.crowdOn(3, r.asking("clients"))
	r.acquires(time.Now(), soon)
	before := r.primaries()
	r.Kill(placesTo(r.failing())...)
	r.promoted(before)
	r.let(r.lease)
	r.Restart(placesTo(r.failing())...)
	r.whole(crowd...)
	r.let(r.lease / 2)
}

func failoverFrozen(r *run) {
	left, right := r.pinned("beside the old primary", 0), r.asking("clients that ask Sentinels")
	r.holdsOn(left)
	r.holdsOn(left)
	follow := r.holdsOn(right)
	r.holdsOn(right)
	r.acquires(time.Now(), soon)
	before := r.primaries()
	r.Freeze(placesTo(r.failing())...)
	r.promoted(before)
	r.let(2 * r.lease)
	r.happened("old primary thawed", "cut off from replicas and Sentinels")
	for i, old := range before { // else a Sentinel would soon make it a replica
		r.Groups[i].Isolate(old)
	}
	r.Thaw(placesTo(r.failing())...)
	r.let(r.lease + r.lease/2) // it may grant to those who asked while it stood still, and have given up
	for i, old := range before {
		r.Groups[i].Join(old)
	}
	r.whole(follow)
	r.let(r.lease / 2)
}

// cutOffWith cuts the primaries off, waits for the promotions and for more than a quarantine, and joins them again. The
// clients beside an old primary do not reach the masters that do not fail over.
func (r *run) cutOffWith(left *paths) (join func()) {
	for i := r.failing(); i < r.n; i++ {
		left.Partition(i)
	}
	before := r.primaries()
	r.Isolate(placesTo(r.failing())...)
	for i := range before { // at once: while the keys of locks, which the replicas have, live
		_ = r.Groups[i].Failover()
	}
	r.promoted(before)
	r.let(2*r.lease + r.lease/2)
	return func() { r.Join(placesTo(r.failing())...) }
}

func failoverHolderStays(r *run) {
	left, right := r.pinned("beside the old primary", 0), r.asking("clients that ask Sentinels")
	a := r.holds(contender.Plan{URLs: left.urls()})
	others := r.crowdOn(2, right)
	join := r.cutOffWith(left)
	r.withholds(a)
	join()
	r.leaves(a)
	a.order(contender.Stop)
	r.whole(others...)
	r.let(r.lease / 2)
}

func failoverHolderFollows(r *run) {
	left, right := r.pinned("beside the old primary", 0), r.asking("clients that ask Sentinels")
	a := r.holds(contender.Plan{URLs: right.urls()})
	r.crowdOn(2, left)
	r.cutOffWith(left)()
	r.goesOn(a)
	r.leaves(a)
	a.order(contender.Stop)
	r.whole(r.crowdOn(1, right)...)
	r.let(r.lease / 2)
}

func failoverByCommand(r *run) {
	crowd := r.crowdOn(1, r.asking("clients that ask Sentinels"))
	crowd = append(crowd, r.crowdOn(1, r.following("clients that follow", moves))...)
	crowd = append(crowd, r.crowdOn(2, r.following("clients whose connections stay", stays))...)
	for range 3 {
		r.acquires(time.Now(), soon+r.lease)
		r.switchOver()
		r.whole(crowd...)
	}
}

func replicaStandsStill(r *run) {
	crowd := r.crowdOn(3, r.following("clients", moves))
	r.acquires(time.Now(), soon)
	r.freezeReplicas(r.lease + r.lease/4)
	r.whole(crowd...)
	links := r.links()
	for i, l := range links {
		r.happened("replica's link silent", "of %s", r.Names[i])
		l.primary.Silence(l.replica)
	}
	r.let(r.lease + r.lease/4)
	for i, l := range links {
		r.happened("replica's link released", "of %s", r.Names[i])
		l.primary.Release(l.replica)
	}
	r.whole(crowd...)
	r.let(r.lease / 2)
}

// link is between a primary and one of its replicas.
type link struct{ primary, replica *failover.Server }

// links returns one of each master that fails over.
func (r *run) links() (all []link) {
	for i, primary := range r.primaries() {
		at := slices.IndexFunc(r.Groups[i].Servers, func(s *failover.Server) bool { return s != primary })
		all = append(all, link{primary, r.Groups[i].Servers[at]})
	}
	return all
}

// freezeReplicas freezes the replicas for some time, and thaws them, even if they have been promoted meanwhile.
func (r *run) freezeReplicas(lasts time.Duration) {
	r.t.Helper()
	links := r.links()
	for i, l := range links {
		r.happened("replica frozen", "of %s", r.Names[i])
		r.must(l.replica.Freeze())
	}
	r.let(lasts)
	for i, l := range links {
		r.happened("replica thawed", "of %s", r.Names[i])
		r.must(l.replica.Thaw())
	}
}

func failoverTwice(r *run) {
	crowd := r.crowdOn(3, r.following("clients", moves))
	r.acquires(time.Now(), soon)
	before := r.primaries()
	r.Kill(placesTo(r.failing())...)
	r.promoted(before)
	next, hit, heal := r.primaries(), r.Freeze, r.Thaw
	hasThird := len(r.Groups[0].Servers) > 2
	if hasThird {
		hit, heal = r.Kill, r.Restart
	}
	if hit(placesTo(r.failing())...); hasThird {
		r.promoted(next)
	}
	for i := range before {
		r.must(before[i].Start())
		r.happened("restart", "the first primary of %s", r.Names[i])
	}
	r.let(r.lease)
	heal(placesTo(r.failing())...)
	r.whole(crowd...)
	r.let(r.lease / 2)
}

// failoversInTurn waits for clients to acquire twice only, so that it is short.
func failoversInTurn(r *run) {
	follow := r.holdsOn(r.asking("clients that ask Sentinels"))
	r.holdsOn(r.following("clients whose connections stay", stays))
	r.holdsOn(r.pinned("beside the first", 0))
	r.holdsOn(r.pinned("beside the second", 1))
	r.acquires(time.Now(), soon)
	fault := func(begin, end func(...int), lasts time.Duration) {
		before := r.primaries()
		begin(0)
		r.promoted(before)
		r.let(lasts)
		end(0)
		r.whole()
	}
	fault(r.Isolate, r.Join, r.lease+r.lease/2)
	r.whole(follow)
	fault(r.Freeze, r.Thaw, r.lease/2)
	r.switchOver()
	r.whole()
	fault(r.Kill, r.Restart, 0)
	r.freezeReplicas(r.lease / 4)
	r.whole(follow)
}

// replicaGoesBack: if one of two replicas were enough, the old primary would grant by the one that went back to it, while
// a lock lives that the new one granted by it. To such clients a primary with two replicas has too many: they need one
// that has lost the other.
func replicaGoesBack(r *run) {
	left, right := r.pinned("beside the old primary", 0), r.asking("clients that ask Sentinels")
	r.crowdOn(2, left)
	b := r.gated(contender.Plan{URLs: right.urls(), Patience: 2 * r.lease})
	if r.kind != fewer {
		r.acquires(time.Now(), soon+r.lease)
	}
	g, before := r.Groups[0], r.primaries()
	old, next, other := g.Servers[0], g.Servers[1], g.Servers[2]
	r.happened("primary and one replica cut off from the other and Sentinels", "master-0")
	g.Isolate(old)
	g.Isolate(other)
	old.Release(other)
	r.promoted(before)
	old.Release(next) // the link is over, and the old primary finds that out
	other.Release(next)
	r.let(r.lease + r.lease/4) // a quarantine, and then one holds beside the old primary, if one replica is enough
	r.happened("replica changes sides", "of master-0")
	r.must(other.Follow(next))
	held := r.pass(b, contender.Acquired, contender.Refused).Did == contender.Acquired
	r.happened("replica changes sides", "of master-0")
	r.must(other.Follow(old))
	r.let(r.lease)
	if held {
		r.at(b, contender.ToWrite)
		r.goesOn(b)
		r.leaves(b)
	}
	b.order(contender.Stop)
	g.Join(old)
	g.Join(other)
	if r.whole(); r.kind != fewer {
		r.whole(r.crowdOn(1, right)...)
	}
	r.let(r.lease / 2)
}

// failoverWalk plays one fault after another on each master that fails over, at the same time.
func failoverWalk(r *run) {
	follow := r.holdsOn(r.asking("clients that ask Sentinels"))
	r.holdsOn(r.following("clients whose connections stay", stays))
	for k, group := range []string{"beside the first", "beside the second"} {
		r.holdsOn(r.pinned(group, k))
	}
	r.acquires(time.Now(), soon)
	faults := []struct{ begin, end func(...int) }{
		{r.Kill, r.Restart}, {r.Freeze, r.Thaw}, {r.Isolate, r.Join},
		{func(i ...int) {
			r.happened("SENTINEL FAILOVER", "%s", r.Names[i[0]])
			_ = r.Groups[i[0]].Failover()
		}, nil},
	}
	for end := time.Now().Add(*walkFor); time.Now().Before(end); {
		before, endings := r.primaries(), []func(){}
		for i := range r.failing() {
			f := faults[r.rng.IntN(len(faults))]
			f.begin(i)
			if f.end != nil {
				endings = append(endings, func() { f.end(i) })
			}
		}
		if r.rng.IntN(2) == 0 { // else perhaps before
			poll.Until(soon, func() bool {
				return !slices.ContainsFunc(r.primaries(), func(s *failover.Server) bool { return slices.Contains(before, s) })
			})
		}
		r.let(r.below(2 * r.lease))
		for _, end := range endings {
			end()
		}
		if r.rng.IntN(2) == 0 {
			r.whole(follow)
		}
		r.let(r.below(r.lease))
	}
	r.whole(follow)
	r.let(r.lease)
}

// failoverWildly does something at random to any server or link, over and over, as no single fault does: also to replicas,
// and as an operator who errs. Clients are beside each process.
func failoverWildly(r *run) {
	for k := range r.Groups[0].Servers {
		r.holdsOn(r.pinned(fmt.Sprintf("beside process %d", k+1), k))
	}
	follow := r.holdsOn(r.asking("clients that ask Sentinels"))
	r.holdsOn(r.following("clients whose connections stay", stays))
	r.acquires(time.Now(), soon+r.lease)
	for end := time.Now().Add(*walkFor); time.Now().Before(end); {
		var healing []func() error
		for range 1 + r.rng.IntN(4) {
			i := r.rng.IntN(r.failing())
			g := r.Groups[i]
			at := r.rng.Perm(len(g.Servers))
			one, other := g.Servers[at[0]], g.Servers[at[1]]
			hit := func(kind string, do func() error, heal func() error) {
				r.happened(kind, "process %d of %s", at[0]+1, r.Names[i])
				_ = do() // it may be dead
				healing = append(healing, heal)
			}
			unless := func() error { return nil }
			switch r.rng.IntN(9) {
			case 0:
				hit("process killed", one.Kill, one.Start)
			case 1:
				hit("process frozen", one.Freeze, one.Thaw)
			case 2:
				hit("link silent", func() error { one.Silence(other); return nil }, func() error { one.Release(other); return nil })
			case 3:
				hit("REPLICAOF another", func() error { return one.Follow(other) }, unless)
			case 4:
				hit("REPLICAOF NO ONE", func() error { _, err := one.Do("REPLICAOF", "NO", "ONE"); return err }, unless)
			case 5:
				hit("SENTINEL FAILOVER", g.Failover, unless)
			default:
				hit("process isolated", func() error { g.Isolate(one); return nil }, func() error { g.Join(one); return nil })
			}
			r.let(r.below(r.lease / 2))
		}
		r.let(r.lease/2 + r.below(2*r.lease))
		r.rng.Shuffle(len(healing), func(i, j int) { healing[i], healing[j] = healing[j], healing[i] })
		for _, heal := range healing {
			_ = heal() // it may have been restarted
			r.let(r.below(r.lease / 4))
		}
		if r.rng.IntN(3) > 0 {
			r.whole(follow)
		}
		r.let(r.below(r.lease))
	}
	r.whole(follow)
	r.let(r.lease)
}
