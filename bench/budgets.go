package main

import "fmt"

// What is measured. The names are parts of benchmarks' names.
const (
	ours      = "quorumlock"
	redsyncs  = "redsync"
	oneMaster = "redislock"
	etcds     = "etcd"
	postgres  = "PostgreSQL"
	noOp      = "no-op"   // two round trips of a script that does nothing
	bare      = "scripts" // two round trips of our scripts, without a lock
	onePair   = "pair"    // of one caller, alongside handoffs and renewals
)

// budget bounds a ratio of two figures of the same rounds, or ours by itself. Of each figure, less is better.
type budget struct {
	what string
	of   string // the benchmark
	unit string // of our figure
	lock string // compared with ours; may be empty
	per  string // the unit of its figure
	most map[int]float64
}

func both(most float64) map[int]float64 { return map[int]float64{3: most, 5: most} }

// Many are what a quiet machine reaches at best; docs/reports/bench.md says which are met.
var budgets = []budget{
	{"256 callers", "callers=256", "ns/op", redsyncs, "ns/op", map[int]float64{3: 0.167, 5: 0.143}},
	// The masters bound it: their processor time for the scripts.
	{"256 callers", "callers=256", "ns/op", noOp, "ns/op", map[int]float64{3: 2.1, 5: 1.9}},
	{"256 callers, p99 and its own p50", "callers=256", "p99-ns", ours, "p50-ns", both(2.5)},
	{"256 callers, part of the pairs that failed", "callers=256", "failed/op", "", "", both(0.001)},
	{"64 callers", "callers=64", "ns/op", redsyncs, "ns/op", map[int]float64{3: 0.286, 5: 0.222}},
	{"16 callers", "callers=16", "ns/op", redsyncs, "ns/op", both(0.5)},
	// The scripts bound it: redsync's write a key, ours also read a marker and a tombstone, and count up.
	{"1 caller", "callers=1", "ns/op", redsyncs, "ns/op", map[int]float64{3: 0.9, 5: 0.95}},
	{"1 caller", "callers=1", "ns/op", noOp, "ns/op", both(1.2)},
	{"1 caller", "callers=1", "ns/op", bare, "ns/op", both(1.2)},
	{"1 caller, allocations", "callers=1", "allocs/op", "", "", map[int]float64{3: 12}},
	{"1 caller, masters 1 ms away", "away", "ns/op", redsyncs, "ns/op", both(1.03)},
	{"1 caller and 10,000 locks renewed every second, p99", "renewing", "p99-ns", onePair, "p99-ns", map[int]float64{3: 2}},
	// The processors bound it: a release wakes all processes that wait, and the pair alongside it is of one.
	{"handoff, p50", "crowd", "p50-ns", onePair, "ns/op", both(2.7)},
	{"handoff, p99", "crowd", "p99-ns", onePair, "ns/op", both(30)},
	{"handoff to a waiter, p50", "waiter", "p50-ns", onePair, "ns/op", both(2.7)},
	{"handoff to a waiter, p99", "waiter", "p99-ns", onePair, "ns/op", both(30)},
}

// tolerance is how many times worse than its budget a figure may be: the machine may have other users.
const tolerance = 4.0 / 3

// line is a budget for one number of masters, with what was measured.
type line struct {
	budget
	n            int
	ours, theirs []float64 // by round
}

func lines(found results) (all []line) {
	for _, b := range budgets {
		for _, n := range []int{3, 5} {
			if b.most[n] > 0 {
				all = append(all, line{b, n, found[place{n, b.of, ours, b.unit}], found[place{n, b.of, b.lock, b.per}]})
			}
		}
	}
	return all
}

// value is NaN if something was not measured. It then meets no budget.
func (l line) value() float64 {
	if l.lock == "" {
		return median(l.ours)
	}
	return ratio(l.ours, l.theirs)
}

func (l line) limit() float64 { return l.most[l.n] }

// failed reports whether the budget is missed by more than a third.
func (l line) failed() bool { return !(l.value() <= tolerance*l.limit()) }

func (l line) verdict() string {
	if l.value() <= l.limit() {
		return "MET"
	}
	return "NOT MET"
}

func (l line) String() string {
	times := ""
	if l.lock != "" {
		times = " × " + l.lock
	}
	return fmt.Sprintf("%-8s%s, N=%d: %.2f%s, budget ≤ %v", l.verdict(), l.what, l.n, l.value(), times, l.limit())
}
