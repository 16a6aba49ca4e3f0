package main

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

type report struct {
	results
	facts    map[string]string
	revision string
}

//go:embed method.md
var method string

// The lines of README between which the figures are written.
const (
	figuresBegin = "<!-- figures: written by make bench, never by hand -->\n"
	figuresEnd   = "<!-- end of the figures -->\n"
)

// save leaves README as it is if etcd or PostgreSQL was not measured.
func (r report) save(root string) error {
	errs := []error{os.WriteFile(filepath.Join(root, "docs/reports/bench.md"), []byte(r.String()), 0o644)}
	if r.facts["etcd"] != "" && r.facts[postgres] != "" {
		path := filepath.Join(root, "README.md")
		text, err := os.ReadFile(path)
		above, rest, found := strings.Cut(string(text), figuresBegin)
		_, below, ended := strings.Cut(rest, figuresEnd)
		if !found || !ended {
			return errors.Join(append(errs, err, errors.New("bench: "+path+" has no place for the figures"))...)
		}
		errs = append(errs, os.WriteFile(path, []byte(above+figuresBegin+"\n"+r.readme()+"\n"+figuresEnd+below), 0o644))
	}
	return errors.Join(errs...)
}

func (r report) String() string {
	var b strings.Builder
	b.WriteString("# Measured\n\n" +
		"Written by `make bench`, never by hand. All figures are of one run, in which the sides took\n" +
		"turns on the same servers. The ratios count, not the absolute figures: the machine may have\n" +
		"had other users at the same time.\n\n")
	fmt.Fprintf(&b, "- %s; quorumlock %s; %s\n- %s/%s, %d CPUs (%s)\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		r.revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), r.facts["cpu"])
	for _, fact := range []string{"servers", "etcd", postgres, "load average before"} {
		if text := r.facts[fact]; text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", fact, text)
		}
	}
	b.WriteString("\n## Budgets\n\n| what | N | quorumlock | compared with | | budget | |\n|---|---|---|---|---|---|---|\n")
	met := 0
	all := lines(r.results)
	for _, l := range all {
		other, times := "", ""
		if l.lock != "" {
			other, times = l.lock+" "+figure(l.per, median(l.theirs)), " ×"
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %.2f%s | ≤ %v%s | %s |\n", l.what, l.n, figure(l.unit, median(l.ours)), other,
			l.value(), times, l.limit(), times, l.verdict())
		if l.verdict() == "MET" {
			met++
		}
	}
	fmt.Fprintf(&b, "\n%d of %d budgets met.\n\n## Compared with other locks\n\nN=3:\n\n%s\nN=5:\n\n%s\n%s", met, len(all), r.table(3, true), r.table(5, true), method)
	return b.String()
}

func (r report) readme() string {
	return fmt.Sprintf("%s\n[Measured](docs/reports/bench.md#how-it-is-measured) %s on %d CPUs, shared by callers and servers: "+
		"3 servers each, 1 for bsm/redislock; %s; %s. Load average before: %s.\n",
		r.table(3, false), time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), r.facts["etcd"], r.facts[postgres], r.facts["load average before"])
}

// table compares our lock with others, by all figures or by those for README. A cell of what was not measured is empty.
func (r report) table(n int, isWhole bool) string {
	var b strings.Builder
	b.WriteString("| lock and unlock | quorumlock | go-redsync | bsm/redislock | etcd | PostgreSQL | quorumlock : etcd |\n|---|---|---|---|---|---|---|\n")
	for _, row := range []struct{ what, of, unit string }{
		{"1 caller", "callers=1", "ns/op"},
		{"16 callers", "callers=16", "ns/op"},
		{"64 callers", "callers=64", "ns/op"},
		{"256 callers", "callers=256", "ns/op"},
		{"contended: idle between two holders, p50", "crowd", "p50-ns"},
		{"the same, p99", "crowd", "p99-ns"},
	} {
		if (row.of == "callers=16" || row.of == "callers=64") && !isWhole {
			continue
		}
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, lock := range []string{ours, redsyncs, oneMaster, etcds, postgres} {
			value := median(r.results[place{n, row.of, lock, row.unit}])
			if text := figure(row.unit, value); row.unit != "ns/op" || text == "" {
				fmt.Fprintf(&b, " %s |", text)
			} else {
				fmt.Fprintf(&b, " %.0f/s |", float64(time.Second)/value)
			}
		}
		times := ratio(r.results[place{n, row.of, etcds, row.unit}], r.results[place{n, row.of, ours, row.unit}])
		if math.IsNaN(times) {
			b.WriteString(" |\n")
		} else {
			fmt.Fprintf(&b, " %.1f × as fast |\n", times)
		}
	}
	return b.String()
}

// figure is a value for people; empty for NaN.
func figure(unit string, value float64) string {
	switch {
	case math.IsNaN(value):
		return ""
	case !strings.Contains(unit, "ns"):
		return fmt.Sprintf("%.2f", value)
	case value >= float64(10*time.Millisecond):
		return fmt.Sprintf("%.1f ms", value/1e6)
	default:
		return fmt.Sprintf("%.1f µs", value/1e3)
	}
}
