package main

import (
	"cmp"
	"fmt"
)

// What is measured. The names are parts of benchmarks' names.
const (
	ours     = "quorumlock"
	redsyncs = "redsync"
	// With its defaults redsync tries again, and waits for all answers.
	redsyncDefaults = "redsync-defaults"
	oneMaster       = "redislock"
	etcds           = "etcd"
	postgres        = "PostgreSQL"
	noOp            = "no-op"    // two round trips of a script that does nothing
	bare            = "bare"     // our scripts over bare connections, without the library
	onePair         = "pair"     // of one caller, alongside handoffs and renewals
	recorded        = "recorded" // the library at the commit in recorded.txt

	allocations = "allocs/op" // other work on the machine does not change them
)

// budget bounds a ratio of two figures of the same rounds, or ours by itself. Of each figure, less is better.
type budget struct {
	what string
	of   string // the benchmark
	unit string // of our figure
	lock string // compared with ours; may be empty
	per  string // the unit of its figure
	than string // its benchmark; of if empty
	most map[int]float64
}

func both(most float64) map[int]float64 { return map[int]float64{3: most, 5: most} }

// Many are what a quiet machine reaches at best; docs/reports/bench.md says which are met.
var budgets = []budget{
	{"256 callers", "callers=256", "ns/op", redsyncDefaults, "ns/op", "", map[int]float64{3: 0.2, 5: 0.167}},
	{"64 callers", "callers=64", "ns/op", redsyncs, "ns/op", "", map[int]float64{3: 0.286, 5: 0.222}},
	{"16 callers", "callers=16", "ns/op", redsyncs, "ns/op", "", both(0.5)},
	{"1 caller", "callers=1", "ns/op", redsyncs, "ns/op", "", map[int]float64{3: 1.2, 5: 1.3}},
	{"1 caller", "callers=1", "ns/op", noOp, "ns/op", "", both(1.2)},
	{"1 caller, allocations, one of them the benchmark's", "callers=1", allocations, "", "", "", map[int]float64{3: 20, 5: 24}},
	{"256 callers, p99 and its own p50", "callers=256", "p99-ns", ours, "p50-ns", "", both(2.5)},
	{"256 callers, part of the pairs that failed", "callers=256", "failed/op", "", "", "", both(0.001)},
	// The scripts bound it: redsync's write a key, ours also read a marker and a tombstone, and count up.
	{"masters' processor time, 1 caller", "callers=1", "masters-ns/op", redsyncs, "masters-ns/op", "", both(1.5)},
	{"the same, 16 callers", "callers=16", "masters-ns/op", redsyncs, "masters-ns/op", "", both(0.7)},
	{"the same, 256 callers", "callers=256", "masters-ns/op", redsyncs, "masters-ns/op", "", both(0.4)},
	{"1 caller and 10,000 locks renewed every second, p99", "renewing", "p99-ns", onePair, "p99-ns", "", map[int]float64{3: 2}},
	{"masters 1 ms away, p50", "away", "p50-ns", redsyncs, "p50-ns", "", both(1.02)},
	{"and one 20 ms slower, p50", "slow", "p50-ns", ours, "p50-ns", "away", both(1.1)},
	{"the same, p99", "slow", "p99-ns", ours, "p99-ns", "away", both(1.5)},
	{"and one frozen, p50", "frozen", "p50-ns", ours, "p50-ns", "away", both(1.1)},
	{"the same, p99", "frozen", "p99-ns", ours, "p99-ns", "away", both(1.5)},
	{"and one dead, p50", "dead", "p50-ns", ours, "p50-ns", "away", both(1.1)},
	{"the same, p99", "dead", "p99-ns", ours, "p99-ns", "away", both(1.5)},
	// The processors bound it: a release wakes all processes that wait, and the pair alongside it is of one.
	{"handoff, p50", "crowd", "p50-ns", onePair, "ns/op", "", both(2.7)},
	{"handoff to a waiter, p50, and the least of bare connections", "waiter", "p50-ns", bare, "p50-ns", "", both(1.5)},
	{"handoff, p99", "crowd", "p99-ns", onePair, "ns/op", "", both(30)},
	{"handoff to a waiter, p50", "waiter", "p50-ns", onePair, "ns/op", "", both(2.7)},
	{"handoff to a waiter, p99", "waiter", "p99-ns", onePair, "ns/op", "", both(30)},
	// A change that makes the library slower is seen in that change.
	{"256 callers, since the recorded commit", "since-256", "ns/op", recorded, "ns/op", "", both(1)},
	{"1 caller, since the recorded commit", "since-1", "ns/op", recorded, "ns/op", "", both(1)},
}

// tolerance is how many times worse than its budget a figure may be: the machine may have other users. These slow the
// two sides of a comparison with ourselves alike.
func (b budget) tolerance() float64 {
	switch {
	case b.lock == recorded:
		return 1.1
	case b.unit == allocations:
		return 1
	}
	return 4.0 / 3
}

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
				all = append(all, line{b, n, found[place{n, b.of, ours, b.unit}], found[place{n, cmp.Or(b.than, b.of), b.lock, b.per}]})
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

// failed reports whether the budget is missed by more than its tolerance.
func (l line) failed() bool { return !(l.value() <= l.tolerance()*l.limit()) }

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
