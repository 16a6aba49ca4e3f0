package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The names of the sides.
const (
	ours       = "quorumlock"
	rival      = "redsync"
	etcdServer = "etcd"
	oneMaster  = "bsm/redislock"
	noOp       = "no-op script"
	sameScript = "same scripts"
	before     = "the tree before"
	onePair    = "one uncontended pair"
)

// budget is one line of the table, for one or more numbers of masters. It bounds the ratio of two
// readings, or one reading alone.
type budget struct {
	what    string
	test    string
	ours    reading
	beside  reading // none if the budget bounds ours alone
	kind    kind
	budgets map[int]float64 // by the number of masters
}

// kind is the direction of a bound.
type kind int

const (
	atMost kind = iota
	atLeast
	compare // no bound: for comparison only
)

func both(limit float64) map[int]float64 { return map[int]float64{3: limit, 5: limit} }

func three(limit float64) map[int]float64 { return map[int]float64{3: limit} }

// budgets is the table that the report and the check read.
var budgets = []budget{
	{"256 callers", many, reading{ours, rate}, reading{rival, rate}, atLeast, map[int]float64{3: 3.5, 5: 5}},
	// The masters bound it: the next line has their part.
	{"256 callers", many, reading{ours, elapsed}, reading{noOp, elapsed}, atMost, map[int]float64{3: 2.1, 5: 1.9}},
	{"256 callers, masters' processor time", many, reading{ours, mastersCPU}, reading{noOp, mastersCPU}, compare, both(0)},
	{"256 callers", many, reading{ours, elapsed}, reading{sameScript, elapsed}, compare, both(0)},
	{"256 callers, p99 and its own p50", many, reading{ours, p99}, reading{ours, p50}, atMost, both(2.5)},
	{"256 callers, masters' processor time", sinceBefore, reading{ours, mastersCPU}, reading{before, mastersCPU},
		atMost, both(0.45)},
	{"16 callers", some, reading{ours, rate}, reading{rival, rate}, atLeast, map[int]float64{3: 2, 5: 2.5}},
	// The scripts bound it: redsync's write a key, ours also read a marker and a tombstone, and count up.
	{"1 caller", one, reading{ours, elapsed}, reading{rival, elapsed}, atMost, both(1.5)},
	{"1 caller, same scripts", one, reading{sameScript, elapsed}, reading{rival, elapsed}, compare, both(0)},
	{"1 caller", one, reading{ours, elapsed}, reading{sameScript, elapsed}, atMost, both(1.2)},
	{"1 caller", one, reading{ours, elapsed}, reading{noOp, elapsed}, compare, both(0)},
	{"1 caller, 1 ms away", away, reading{ours, elapsed}, reading{rival, elapsed}, atMost, both(1.1)},
	{"1 caller, 1 ms away", away, reading{ours, elapsed}, reading{noOp, elapsed}, compare, both(0)},
	{"1 caller, allocations", one, reading{ours, allocs}, reading{}, atMost, three(20)},
	{"1 caller, allocations", one, reading{ours, allocs}, reading{rival, allocs}, compare, three(0)},
	{"one master frozen, 1 caller, p99", frozenOne, reading{"frozen", p99}, reading{"healthy", p99},
		atMost, three(1.5)},
	{"redsync, one master frozen, 1 caller, p99", frozenOne, reading{"redsync frozen", p99},
		reading{"redsync healthy", p99}, compare, three(0)},
	{"one master frozen, 64 callers, p99", frozenMany, reading{"frozen", p99}, reading{"healthy", p99},
		atMost, three(1.5)},
	{"redsync, one master frozen, 64 callers, p99", frozenMany, reading{"redsync frozen", p99},
		reading{"redsync healthy", p99}, compare, three(0)},
	// The processors bound it: a release wakes all processes that wait, and the pair beside it is of one.
	{"handoff, p50", crowd, reading{ours, p50}, reading{onePair, elapsed}, atMost, both(3.5)},
	{"handoff, p99", crowd, reading{ours, p99}, reading{}, atMost, both(10e6)},
	{"handoff, p50", crowd, reading{ours, p50}, reading{rival, p50}, compare, both(0)},
	{"handoff to a waiter, p50", waiter, reading{ours, p50}, reading{onePair, elapsed}, atMost, both(3)},
	{"handoff to a waiter, p99", waiter, reading{ours, p99}, reading{}, atMost, both(10e6)},
	{"handoff to a waiter, p50", waiter, reading{ours, p50}, reading{rival, p50}, compare, both(0)},
	{"100,000 held, bytes each", held, reading{ours, heap}, reading{}, atMost, three(1.3 * 1024)},
	{"100,000 held, goroutines of all", held, reading{ours, goroutines}, reading{}, atMost, three(16)},
	{"100,000 held, commands per renewal", held, reading{ours, commands}, reading{}, atMost, three(0.05)},
	// The masters bound it: the caller's requests wait behind calls that renew 32 locks.
	{"1 caller beside 10,000 renewed every second, p99", renewing, reading{"beside renewals", p99},
		reading{"alone", p99}, atMost, three(2)},
	{"1 caller", etcdOne, reading{ours, rate}, reading{etcdServer, rate}, compare, three(0)},
	{"16 callers", etcdSome, reading{ours, rate}, reading{etcdServer, rate}, compare, three(0)},
	{"256 callers", etcdMany, reading{ours, rate}, reading{etcdServer, rate}, compare, three(0)},
	{"handoff, p50", etcdCrowd, reading{ours, p50}, reading{etcdServer, p50}, compare, three(0)},
	{"handoff, p99", etcdCrowd, reading{ours, p99}, reading{etcdServer, p99}, compare, three(0)},
}

// line is a budget for one number of masters, with what was measured.
type line struct {
	budget
	at      place
	outcome *outcome
	value   float64 // the ratio, or the reading; where measured
	ok      bool    // measured
}

// lines joins the budgets with results. Tests that did not run have no lines.
func lines(all []budget, found results) []line {
	var out []line
	for _, b := range all {
		for _, n := range slices.Sorted(maps.Keys(b.budgets)) {
			l := line{budget: b, at: place{b.test, n}}
			if l.outcome = found[l.at]; l.outcome == nil {
				continue
			}
			if b.beside == (reading{}) {
				l.value, l.ok = l.outcome.median(b.ours)
			} else {
				l.value, l.ok = l.outcome.ratio(b.ours, b.beside)
			}
			out = append(out, l)
		}
	}
	return out
}

func (l line) limit() float64 { return l.budgets[l.at.n] }

// excess is how many times the value is worse than the budget: at most 1 if the budget is met.
func (l line) excess() float64 {
	switch {
	case l.kind == atLeast:
		return l.limit() / l.value
	default:
		return l.value / l.limit()
	}
}

const (
	met        = "MET"
	notMet     = "NOT MET"
	wasSkipped = "SKIPPED"
)

// verdict is the result as a word that readers can search for.
func (l line) verdict() string {
	switch {
	case l.outcome.skipped != "":
		return wasSkipped
	case l.kind == compare:
		return ""
	case l.ok && l.excess() <= 1: // a value that is no number is not
		return met
	default:
		return notMet
	}
}

func (l line) isRatio() bool { return l.beside != reading{} }

// valueText is the ratio, or the reading.
func (l line) valueText() string {
	switch {
	case !l.ok:
		return ""
	case l.isRatio():
		return fmt.Sprintf("%.2f ×", l.value)
	default:
		return l.ours.figure.text(l.value)
	}
}

func (l line) budgetText() string {
	sign := "≤"
	switch l.kind {
	case compare:
		return ""
	case atLeast:
		sign = "≥"
	}
	if l.isRatio() {
		return fmt.Sprintf("%s %v ×", sign, l.limit())
	}
	return sign + " " + l.ours.figure.text(l.limit())
}

// besideText is the other reading with its side's name.
func (l line) besideText() string {
	switch {
	case !l.isRatio():
		return ""
	case l.beside.side == l.ours.side:
		return "its " + string(l.beside.figure) + " " + l.outcome.text(l.beside)
	default:
		return strings.TrimSpace(l.beside.side + " " + l.outcome.text(l.beside))
	}
}
