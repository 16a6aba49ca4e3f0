package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/internal/handoff"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

func TestMain(m *testing.M) {
	if handoff.IsWorker() {
		os.Exit(handoff.Work())
	}
	goleak.VerifyTestMain(m)
}

// TestSmoke measures everything for a moment. It does not check budgets: a machine that runs tests
// is too busy for that.
func TestSmoke(t *testing.T) {
	r, err := run(t.Context(), size{
		masters: []int{3, 5},
		rounds:  1, slice: 20 * time.Millisecond, freezes: 1, frozen: 20 * time.Millisecond,
		passes: 1, pass: 500 * time.Millisecond, processes: 2, locks: 500, lease: 300 * time.Millisecond,
	}, "", t.Output())
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("needs real servers: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.rows {
		if row.ours == "" && row.theirs == "" {
			t.Errorf("%s: no figures", row.what)
		}
		for _, bad := range []string{"of quorumlock failed", "HELD BY TWO", "failures, the first"} {
			if strings.Contains(row.details, bad) {
				t.Errorf("%s: %s", row.what, row.details)
			}
		}
	}
	var text strings.Builder
	if err := r.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 caller", "256 callers", "allocations", "frozen", "handoff", "500 locks held",
		"MET", "budgets met"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report does not speak of %q:\n%s", want, &text)
		}
	}
}
