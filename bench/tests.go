package main

import (
	"context"
	"time"
)

// The names of the tests that have lines in the table of budgets.
const (
	one         = "1 caller"
	some        = "16 callers"
	many        = "256 callers"
	sinceBefore = "256 callers, beside the tree before"
	away        = "1 caller, 1 ms away"
	frozenOne   = "one master frozen, 1 caller"
	frozenMany  = "one master frozen, 64 callers"
	crowd       = "handoff, 8 contenders in as many processes"
	waiter      = "handoff to a waiter, 64 locks, 8 processes"
	held        = "locks held"
	renewing    = "1 caller beside renewals"
	etcdOne     = "1 caller beside etcd"
	etcdSome    = "16 callers beside etcd"
	etcdMany    = "256 callers beside etcd"
	etcdCrowd   = "handoff beside etcd, 8 contenders in as many processes"
)

// test measures one thing at each of some numbers of masters.
type test struct {
	name    string
	masters []int
	measure func(b *bench, ctx context.Context, n int) (*outcome, error)
	// profile shows where the time goes, beneath a budget that was missed. It may be nil.
	profile func(b *bench, ctx context.Context, n int) (string, error)
}

// tests returns all tests, in the order in which they run.
func (s size) tests() []test {
	all := []test{
		{sinceBefore, []int{3, 5}, measureBefore, profileOf(256)},
		{one, []int{3, 5}, measurePairs(1), profileOf(1)},
		{some, []int{3, 5}, measurePairs(16), profileOf(16)},
		{many, []int{3, 5}, measurePairs(256), profileOf(256)},
		{away, []int{3, 5}, measureAway, profileAway},
		{frozenOne, []int{3}, measureFrozen(1), nil},
		{frozenMany, []int{3}, measureFrozen(64), nil},
		{crowd, []int{3, 5}, measureHandoffs(crowdPlan), profileHandoffs(crowdPlan)},
		{waiter, []int{3, 5}, measureHandoffs(waiterPlan), profileHandoffs(waiterPlan)},
		{held, []int{3}, measureHeld, profileHeld},
		{renewing, []int{3}, measureRenewing, profileRenewing},
	}
	if s.budgetsOnly {
		return all
	}
	all = append(all,
		test{etcdOne, []int{3}, measureEtcdPairs(1), nil},
		test{etcdSome, []int{3}, measureEtcdPairs(16), nil},
		test{etcdMany, []int{3}, measureEtcdPairs(256), nil},
		test{etcdCrowd, []int{3}, measureEtcdHandoffs, nil})
	for _, callers := range s.callers {
		all = append(all, test{choiceTest(callers), []int{1, 3, 5}, measureChoices(callers), nil})
	}
	return append(all,
		test{moreCallers, []int{3}, measureMoreCallers, nil},
		test{moreNames, []int{3}, measureMoreNames, nil},
		test{moreHeld, []int{3}, measureMoreHeld, nil})
}

// size is the length and the scale of the tests.
type size struct {
	budgetsOnly bool

	rounds  int
	slice   time.Duration // of one side in one round
	choices int           // rounds of what a user may choose
	callers []int         // theirs
	freezes int
	frozen  time.Duration // of one state in one round; longer than the timeout
	passes  int           // rounds of handoffs
	pass    time.Duration

	processes int           // that hand locks off
	locks     int           // held at once
	lease     time.Duration // theirs
	renewed   int           // locks that are renewed beside a caller
	renewals  time.Duration // the time between their renewals, a third of a lease
	waves     int           // how many of these times a side lasts
	growth    []int         // callers, in steps; names and held locks are multiples of it
	settle    time.Duration // of a slice beside held locks: several of their renewals
}

// usual is a number of callers at which they share connections well.
func (s size) usual() int { return s.callers[len(s.callers)/2] }

func full() size {
	return size{
		rounds: 15, slice: 120 * time.Millisecond, choices: 3, callers: []int{1, 16, 256, 1024},
		freezes: 5, frozen: 700 * time.Millisecond,
		passes: 3, pass: 1500 * time.Millisecond, processes: 8,
		locks: 100_000, lease: 15 * time.Second,
		renewed: 10_000, renewals: time.Second, waves: 2,
		growth: []int{10, 100, 1000}, settle: 5 * time.Second,
	}
}
