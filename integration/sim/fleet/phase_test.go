package fleet

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// phase is a measured part of a run.
type phase struct {
	name   string
	isLoad bool          // one of loads, with all regions
	sudden bool          // the cut begins with the measurement
	pause  time.Duration // see load
	cut    []region      // at most one region, which is cut off during the phase
	settle time.Duration // before the measurement
	length time.Duration // of the measurement
}

// loads are more and more.
var loads = []time.Duration{2 * time.Second, 200 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond, 0}

// whileCut is the load while a region is cut off.
const whileCut = 10 * time.Second

// phases makes the measurements that many times as long as a large fleet needs.
func phases(stretch time.Duration) (all []phase) {
	for i, pause := range loads {
		p := phase{name: fmt.Sprintf("mean pause %v", pause), isLoad: true, pause: pause, settle: time.Second * 3 / 10,
			length: stretch * time.Second * 3 / 10}
		if i == 0 {
			p.settle, p.length = time.Second, stretch*3*time.Second // few calls, and those at contended names take long
		}
		all = append(all, p)
	}
	all = append(all, phase{name: "all regions", pause: whileCut, settle: time.Second, length: stretch * time.Second})
	for at := range regions {
		if stretch > 1 && at == regionB {
			continue // to a small fleet it is as A
		}
		cut := []region{at}
		all = append(all,
			phase{name: at.String() + " is cut off, first second", pause: whileCut, cut: cut, sudden: true, length: time.Second},
			phase{name: at.String() + " is cut off, later", pause: whileCut, cut: cut, length: time.Second})
		if stretch > 1 { // thousands of processes that probe dead masters take long to simulate
			all = append(all, phase{name: at.String() + " is cut off, a lease later", pause: whileCut, cut: cut,
				settle: quorum.DefaultLease, length: stretch * time.Second})
		}
		all = append(all, phase{name: at.String() + " is back, after 2 s", pause: whileCut, settle: 2 * time.Second,
			length: stretch * time.Second})
	}
	return all
}

// result is what was measured in a phase.
type result struct {
	phase
	took     map[class][]time.Duration
	attempts map[class]int
	masters  []work
}

// play plays a phase. The load of the phase before goes on if it is the same.
func (f *fleet) play(p phase) result {
	if f.present().over == nil || f.present().pause != p.pause {
		f.setLoad(load{pause: p.pause})
	}
	for at := range regions {
		f.world.setCut(at, false)
	}
	for _, at := range p.cut {
		f.world.setCut(at, true)
	}
	time.Sleep(p.settle)
	f.samples.start()
	before, attempts := f.world.done(), f.attempts()
	time.Sleep(p.length)
	r := result{phase: p, took: f.samples.stop(), attempts: f.attempts()}
	for c, n := range attempts {
		r.attempts[c] -= n
	}
	for i, after := range f.world.done() {
		r.masters = append(r.masters, after.since(before[i]))
	}
	return r
}

// perSecond is a number in the measured time, for each second.
func (r *result) perSecond(n int) float64 { return float64(n) / r.length.Seconds() }

// busiest returns the largest part of the time in which a master's core was busy.
func (r *result) busiest() (share float64) {
	for _, m := range r.masters {
		share = max(share, m.busy.Seconds()/r.length.Seconds())
	}
	return share
}

// of returns the calls of the classes that match.
func (r *result) of(matches func(class) bool) (took []time.Duration) {
	for c, some := range r.took {
		if matches(c) {
			took = append(took, some...)
		}
	}
	return took
}

// alone returns the calls at names that nobody else wanted, of a region.
func (r *result) alone(at region) []time.Duration {
	return r.of(func(c class) bool { return c.contenders == 1 && c.at == at })
}

// contended returns the calls at names with that number of contenders.
func (r *result) contended(contenders int) []time.Duration {
	return r.of(func(c class) bool { return c.contenders == contenders })
}

// attemptsOf returns how many attempts the calls at such names made.
func (r *result) attemptsOf(contenders int) (n int) {
	for c, some := range r.attempts {
		if c.contenders == contenders {
			n += some
		}
	}
	return n
}

func (r *result) all() []time.Duration { return r.of(func(class) bool { return true }) }
