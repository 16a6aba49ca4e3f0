package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// README has a place for the figures, and the names of the sides are those of its table.
func TestReadmeTakesTheFigures(t *testing.T) {
	before, err := os.ReadFile("../README.md")
	must(t, err)
	path := filepath.Join(t.TempDir(), "README.md")
	must(t, os.WriteFile(path, before, 0o600))
	now := func() string {
		text, err := os.ReadFile(path)
		must(t, err)
		return string(text)
	}

	side := func(value float64) []figures { return []figures{{rate: value, p50: value * 1e3, p99: value * 2e3}} }
	measured := &outcome{rounds: map[string][]figures{
		ours: side(600), rival: side(500), oneMaster: side(400), etcdServer: side(100)}}
	r := &report{began: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), etcd: "3 etcd 3.4.23 processes",
		results: results{}}
	for _, row := range readmeRows[1:] {
		r.results[place{row.test, 3}] = measured
	}
	must(t, r.saveReadme(path)) // one was not measured
	if now() != string(before) {
		t.Fatalf("figures of a part of the tests were written:\n%s", now())
	}

	r.results[place{readmeRows[0].test, 3}] = measured
	for range 2 {
		must(t, r.saveReadme(path))
	}
	for _, want := range []string{
		"| 1 caller | 600/s | 500/s | 400/s | 100/s | 6.0 × as fast |\n",
		"| contended: idle between two holders, p50 | 600.0 µs | 500.0 µs | 400.0 µs | 100.0 µs | 0.2 × as fast |\n",
		" 2026-11-23 in turns", "; 3 etcd 3.4.23 processes. The ratio is",
	} {
		if strings.Count(now(), want) != 1 {
			t.Errorf("want %q once in:\n%s", want, now())
		}
	}
	above, _, _ := strings.Cut(string(before), figuresBegin)
	_, below, _ := strings.Cut(string(before), figuresEnd)
	if !strings.HasPrefix(now(), above) || !strings.HasSuffix(now(), below) {
		t.Errorf("other text changed:\n%s", now())
	}
}
