package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Every benchmark runs for a moment, and what it measured is in the report. No budget is checked: a machine that runs
// tests is too busy for that.
func TestSmoke(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", "-test.bench=/n=3", "-test.benchtime=1x", "-rounds=1", "-pass=700ms", "-held=10", "-since=false")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	testkit.Require(t, err == nil, "%v\n%s", err, out)
	found, facts, err := read(bytes.NewReader(out))
	must(t, err)
	for _, l := range lines(found) {
		testkit.Check(t, l.n != 3 || l.lock == recorded || !math.IsNaN(l.value()), "not measured: %v\n%s", l, out)
	}

	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "docs/reports"), 0o700))
	before := testkit.Read(t, "../README.md")
	must(t, os.WriteFile(filepath.Join(root, "README.md"), []byte(before), 0o600))
	for range 2 {
		must(t, run(bytes.NewReader(out), t.Output(), root, "this tree"))
	}
	readme := testkit.Read(t, filepath.Join(root, "README.md"))
	page := testkit.Read(t, filepath.Join(root, "docs/reports/bench.md"))
	above, _, _ := strings.Cut(before, figuresBegin)
	_, below, _ := strings.Cut(before, figuresEnd)
	whole, short := report{results: found}.table(3), report{results: found}.faults(3, false)
	testkit.Check(t, strings.HasPrefix(readme, above) && strings.HasSuffix(readme, below) &&
		strings.Contains(readme, short) == (facts["etcd"] != "" && facts[postgres] != ""), "README: %s", readme)
	testkit.Check(t, strings.Contains(page, whole) && strings.Contains(page, "budgets met") && !strings.Contains(page, "NaN/s") && !strings.Contains(page, "NaN ms"),
		"bench.md: %s", page)
}

// budgetOf returns the line of a budget of at most 2, with these ratios of its rounds. The rounds differ: a busy machine
// slows both sides of one.
func budgetOf(ratios ...float64) line {
	l := line{budget: budget{what: "a line", lock: "another", most: both(2)}, n: 3}
	for i, r := range ratios {
		slow := math.Pow(10, float64(i))
		l.ours, l.theirs = append(l.ours, r*slow), append(l.theirs, slow)
	}
	return l
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		line   line
		want   string
		failed bool
	}{
		"at the bound":               {budgetOf(2), "MET", false},
		"above it":                   {budgetOf(2.1), "NOT MET", false},
		"a third above it":           {budgetOf(2.66), "NOT MET", false},
		"more than a third above it": {budgetOf(2.68), "NOT MET", true},
		"the rounds' own ratios":     {budgetOf(1, 9, 1), "MET", false},
		"not measured":               {budgetOf(), "NOT MET", true},
		"no number":                  {budgetOf(math.NaN()), "NOT MET", true},
		"slower than recorded":       {line{budget: budget{lock: recorded, most: both(1)}, n: 3, ours: []float64{112}, theirs: []float64{100}}, "NOT MET", true},
		"nothing to compare with":    {line{budget: budget{most: both(20)}, n: 3, ours: []float64{19}}, "MET", false},
	} {
		testkit.Check(t, c.line.verdict() == c.want && c.line.failed() == c.failed,
			"%s: %v, failed %v", name, c.line, c.line.failed())
	}
}

// Output in which benchmarks failed, or that stops halfway, passes no check.
func TestRead(t *testing.T) {
	const out = "cpu: a processor\n" +
		"BenchmarkLock/n=3/callers=64/lock=quorumlock/round=1-2 \t 100\t 2500 ns/op\t 7.5 p99-ns\n" +
		"BenchmarkLock/n=3/callers=64/lock=quorumlock/round=2 \t 100\t 3500 ns/op\t 8.5 p99-ns\n"
	found, facts, err := read(strings.NewReader(out + "PASS\n"))
	if got := found[place{3, "callers=64", ours, "p99-ns"}]; err != nil || len(got) != 2 || got[1] != 8.5 || facts["cpu"] != "a processor" {
		t.Errorf("%v, %v, %v", found, facts, err)
	}
	for _, end := range []string{"", "FAIL\n"} {
		_, _, err := read(strings.NewReader(out + end))
		testkit.Check(t, err != nil, "no error of output that ends with %q", end)
	}
}

func TestJudge(t *testing.T) {
	// Of two locks, the second passes by itself.
	other := []hold{{Lock: 1, Process: 0, Asked: 1, Acquired: 2, Released: 12}, {Lock: 1, Process: 1, Asked: 3, Acquired: 15, Released: 20}}
	for name, c := range map[string]struct {
		holds    []hold
		idle     int
		overlaps int
	}{
		"to a waiter":              {[]hold{{0, 0, 1, 10, 20}, {0, 1, 2, 25, 30}}, 5, 0},
		"to a newcomer":            {[]hold{{0, 0, 1, 10, 20}, {0, 1, 2, 0, 0}, {0, 2, 22, 25, 30}}, 5, 0},
		"regained":                 {[]hold{{0, 0, 1, 10, 20}, {0, 1, 2, 0, 0}, {0, 0, 22, 25, 30}}, 0, 0},
		"nobody waits":             {[]hold{{0, 0, 1, 10, 20}, {0, 1, 22, 25, 30}}, 0, 0},
		"one of the process waits": {[]hold{{0, 0, 1, 10, 20}, {0, 0, 2, 0, 0}, {0, 1, 22, 25, 30}}, 0, 0},
		"held by two":              {[]hold{{0, 0, 1, 10, 20}, {0, 1, 2, 19, 30}}, 0, 1},
	} {
		idle, overlaps := judge(append(c.holds, other...))
		sum := 0
		for _, took := range idle {
			sum += int(took)
		}
		testkit.Check(t, sum == c.idle+3 && overlaps == c.overlaps,
			"%s: idle for %v, %d overlaps", name, idle, overlaps)
	}
}

// A busy machine slows a pair, but makes it allocate no more.
func TestAllocations(t *testing.T) {
	fleet := testkit.Real(t, 5)
	for _, b := range budgets {
		for n, most := range b.most {
			if b.unit != allocations {
				continue
			}
			for _, m := range fleet.Masters {
				testkit.Got(m.Do("FLUSHALL"))(t)
			}
			l := testkit.Got(redlock.Open(fleet.URLs()[:n], quorum.WithLogger(silent),
				quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(startBound))))(t)
			got := testing.AllocsPerRun(1000, func() {
				lock := testkit.Got(l.Lock(t.Context(), "a"))(t)
				must(t, lock.Unlock(t.Context()))
			})
			must(t, l.Close())
			testkit.Check(t, got <= most, "N=%d: %v allocations a pair, want at most %v", n, got, most)
		}
	}
}
