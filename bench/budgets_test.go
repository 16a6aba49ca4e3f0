package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// lineOf returns a line with one budget, and a ratio for each round.
func lineOf(kind kind, limit float64, ratios ...float64) line {
	o := &outcome{rounds: map[string][]figures{}}
	for i, ratio := range ratios {
		// The rounds differ: a busy machine slows both sides of a round.
		slow := math.Pow(10, float64(i))
		o.rounds[ours] = append(o.rounds[ours], figures{elapsed: ratio * slow})
		o.rounds[rival] = append(o.rounds[rival], figures{elapsed: slow})
	}
	b := budget{"a line", one, reading{ours, elapsed}, reading{rival, elapsed}, kind, map[int]float64{3: limit}}
	all := lines([]budget{b}, results{{one, 3}: o})
	return all[0]
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		line line
		want string
		fail bool
	}{
		"at the bound":               {lineOf(atMost, 2, 2), met, false},
		"above it":                   {lineOf(atMost, 2, 2.1), notMet, false},
		"a third above it":           {lineOf(atMost, 2, 2.66), notMet, false},
		"more than a third above it": {lineOf(atMost, 2, 2.68), notMet, true},
		"at the least":               {lineOf(atLeast, 2, 2), met, false},
		"below it":                   {lineOf(atLeast, 2, 1.9), notMet, false},
		"a third worse":              {lineOf(atLeast, 2, 1.51), notMet, false},
		"more than a third worse":    {lineOf(atLeast, 2, 1.49), notMet, true},
		"the rounds' own ratios":     {lineOf(atMost, 2, 1, 9, 1), met, false},
		"not measured":               {lineOf(atMost, 2), notMet, true},
		"no number":                  {lineOf(atMost, 2, math.NaN()), notMet, true},
		"for comparison":             {lineOf(compare, 0, 9), "", false},
		"nothing to compare with": {line{budget: budget{kind: compare, budgets: three(0)},
			outcome: &outcome{skipped: "a reason"}}, wasSkipped, false},
		"skipped": {line{budget: budget{ours: reading{ours, elapsed}, budgets: three(1)},
			outcome: &outcome{skipped: "a reason"}}, wasSkipped, false},
	} {
		if got := c.line.verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		var text strings.Builder
		err := check(&text, []line{c.line})
		if (err != nil) != c.fail {
			t.Errorf("%s: check: %v", name, err)
		}
		if c.want == wasSkipped && c.line.kind != compare && !strings.Contains(text.String(), "a reason") {
			t.Errorf("%s: no reason: %s", name, &text)
		}
		if err == nil {
			continue
		}
		for _, part := range []string{"a line, N=3", c.line.valueText(), c.line.budgetText()} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error does not name %q: %v", name, part, err)
			}
		}
	}
}

func TestCheckOfNothingFails(t *testing.T) {
	if check(new(strings.Builder), nil) == nil {
		t.Error("no error")
	}
}

// The names in the table are those of tests, and each test of the check has a budget.
func TestEachBudgetHasItsTest(t *testing.T) {
	tests, checks := size{}.tests(), size{budgetsOnly: true}.tests()
	bounded := map[string]bool{}
	for _, b := range budgets {
		bounded[b.test] = bounded[b.test] || b.kind != compare
		i := slices.IndexFunc(tests, func(t test) bool { return t.name == b.test })
		if i < 0 {
			t.Errorf("%s: no test %q", b.what, b.test)
			continue
		}
		for n, limit := range b.budgets {
			if !slices.Contains(tests[i].masters, n) {
				t.Errorf("%s: %q does not run with %d masters", b.what, b.test, n)
			}
			if (limit == 0) != (b.kind == compare) {
				t.Errorf("%s, N=%d: limit %v", b.what, n, limit)
			}
		}
	}
	for _, test := range checks {
		if !bounded[test.name] {
			t.Errorf("%q has no budget", test.name)
		}
		delete(bounded, test.name)
	}
	for test, has := range bounded {
		if has {
			t.Errorf("the check does not run %q, which has a budget", test)
		}
	}
}
