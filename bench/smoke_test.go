package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

func TestMain(m *testing.M) {
	if child, code := asChild(); child {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestSmoke measures everything for a moment. It does not check budgets: a machine that runs tests
// is too busy for that.
func TestSmoke(t *testing.T) {
	const slice, handoffs = 20 * time.Millisecond, "handoff"
	small := size{
		rounds: 1, slice: slice, choices: 1, callers: []int{1, 16}, freezes: 1, frozen: slice,
		passes: 1, pass: time.Second, processes: 2, locks: 500, lease: 3 * time.Second,
		renewed: 50, renewals: 100 * time.Millisecond, waves: 1, growth: []int{2, 4, 8}, settle: slice,
	}
	r, err := run(t.Context(), small, "", t.Output())
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("needs real servers: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := lines(budgets, r.results)
	for range 3 { // a busy machine may hand off nothing in so short a time, not even ours
		if !slices.ContainsFunc(all, func(l line) bool { return !l.ok && l.kind != compare && strings.Contains(l.what, handoffs) }) {
			break
		}
		small.pass *= 3
		again, err := run(t.Context(), small, handoffs, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(r.results, again.results)
		all = lines(budgets, r.results)
	}
	want := 0
	for _, b := range budgets {
		want += len(slices.Collect(maps.Keys(b.budgets)))
	}
	if len(all) != want {
		t.Errorf("%d lines of %d", len(all), want)
	}
	for _, l := range all {
		switch {
		case l.outcome.skipped != "":
			t.Logf("%s, N=%d: skipped: %s", l.what, l.at.n, l.outcome.skipped)
		case !l.ok && l.kind == compare && l.beside.figure != rate: // redsync may have had no handoff in so short a time
			t.Logf("%s, N=%d: nothing of %s", l.what, l.at.n, l.beside.side)
		case !l.ok:
			t.Errorf("%s, N=%d: no figures: %+v", l.what, l.at.n, l.outcome)
		case l.outcome.cpu(l.ours.side) == "":
			t.Errorf("%s, N=%d: no processor time", l.what, l.at.n)
		}
	}
	dir := t.TempDir()
	scale := []byte("above\n" + figuresBegin + figuresEnd + "below\n")
	if err := os.WriteFile(filepath.Join(dir, "scale.md"), scale, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.save(dir); err != nil {
		t.Fatal(err)
	}
	report := read(t, dir, "reports/bench.md")
	// A rival may fail: on a busy machine its dials take too long.
	for _, bad := range []string{"of quorumlock failed", "HELD BY TWO", "quorumlock: .* failures, the first", "NaN"} {
		if found := regexp.MustCompile(bad).FindString(report); found != "" {
			t.Errorf("the report speaks of %q:\n%s", found, report)
		}
	}
	for _, want := range []string{"budgets met", "bsm/redislock", "800 other locks held", "(bench-latency-16.svg)"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not speak of %q:\n%s", want, report)
		}
	}
	for file, want := range map[string]string{"reports/bench-throughput-5.svg": "<svg", "reports/bench-latency-1.svg": "<svg",
		"scale.md": "| 5 |"} {
		if !strings.Contains(read(t, dir, file), want) {
			t.Errorf("%s has no %q", file, want)
		}
	}
}

func read(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
