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

	"github.com/quorumlock/quorumlock/quorum"
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
	fmt.Fprintf(&b, "\n%d of %d budgets met.\n", met, len(all))
	for _, n := range []int{3, 5} {
		fmt.Fprintf(&b, "\n## %d masters\n\n%s\n%s\n%s", n, r.faults(n, true), r.table(n), r.costs(n))
	}
	b.WriteString("\n" + method)
	return b.String()
}

func (r report) readme() string {
	return fmt.Sprintf("%s\n[Measured](docs/reports/bench.md#how-it-is-measured) %s, one caller, 3 masters 1 ms away. On loopback, with 256 callers, "+
		"%s (go-redsync %s, etcd %s).\n", r.faults(3, false), time.Now().UTC().Format("2006-01-02"),
		r.perSecond(3, "callers=256", ours), r.perSecond(3, "callers=256", redsyncDefaults), r.perSecond(3, "callers=256", etcds))
}

// faults compares how long a pair takes where masters are away, with faults and without: all of it, or what the README has. A
// cell of what was not measured is empty.
func (r report) faults(n int, all bool) string {
	var b strings.Builder
	b.WriteString("| lock and unlock, p50 and p99 | quorumlock | go-redsync | go-redsync, fail-fast |\n|---|---|---|---|\n")
	for _, row := range []struct {
		what, of string
		isShort  bool // in the README, too
	}{
		{"all masters well", "away", true},
		{"one 20 ms slower", "slow", true},
		{"1 of 100 requests 20 ms late", "jitter", true},
		{"one frozen", "frozen", true},
		{"one dead", "dead", false},
		{"one restarting", "restarting", false},
		{"masters 0, 10 and 30 ms away", "regions", false},
		{"the same, 5 callers", "regions-5", false},
	} {
		if !all && !row.isShort {
			continue
		}
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, lock := range []string{ours, redsyncDefaults, redsyncs} {
			fmt.Fprintf(&b, " %s |", millis(r.at(n, row.of, lock, "p50-ns"), r.at(n, row.of, lock, "p99-ns")))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "| the holder crashed: idle after its lease | %s | %s | |\n", millis(r.at(n, "crash", ours, "idle-ns")),
		millis(r.at(n, "crash", redsyncs, "idle-ns")))
	return b.String()
}

// at is the median of what was measured; NaN of nothing.
func (r report) at(n int, of, lock, unit string) float64 {
	return median(r.results[place{n, of, lock, unit}])
}

// millis leaves out what was not measured.
func millis(figures ...float64) string {
	var texts []string
	for _, ns := range figures {
		if !math.IsNaN(ns) {
			texts = append(texts, fmt.Sprintf("%.1f ms", ns/1e6))
		}
	}
	return strings.Join(texts, ", ")
}

func callersText(callers int) string {
	if callers == 1 {
		return "1 caller"
	}
	return fmt.Sprint(callers, " callers")
}

// table compares our lock with others on loopback. A cell of what was not measured is empty.
func (r report) table(n int) string {
	var b strings.Builder
	b.WriteString("| lock and unlock on loopback | quorumlock | go-redsync | go-redsync, fail-fast | bsm/redislock | etcd | PostgreSQL |\n|---|---|---|---|---|---|---|\n")
	locks := []string{ours, redsyncDefaults, redsyncs, oneMaster, etcds, postgres}
	for _, callers := range []int{1, 16, 64, 256} {
		fmt.Fprintf(&b, "| %s |", callersText(callers))
		for _, lock := range locks {
			fmt.Fprintf(&b, " %s |", r.perSecond(n, fmt.Sprint("callers=", callers), lock))
		}
		b.WriteString("\n")
	}
	for _, part := range []string{"p50", "p99"} { // under contention redsyncs, too, has its defaults
		fmt.Fprintf(&b, "| contended: idle between two holders, %s | %s | %s | | | %s | |\n", part, r.handoff(n, ours, part), r.handoff(n, redsyncs, part), r.handoff(n, etcds, part))
	}
	return b.String()
}

func (r report) handoff(n int, lock, part string) string {
	return figure("ns", r.at(n, "crowd", lock, part+"-ns"))
}

func (r report) perSecond(n int, of, lock string) string {
	value := r.at(n, of, lock, "ns/op")
	if math.IsNaN(value) {
		return ""
	}
	return fmt.Sprintf("%.0f/s", float64(time.Second)/value)
}

// costs is the processor time of all masters.
func (r report) costs(n int) string {
	var b strings.Builder
	b.WriteString("| processor time of all masters | quorumlock | go-redsync, fail-fast |\n|---|---|---|\n")
	for _, callers := range []int{1, 16, 256} {
		of := fmt.Sprint("callers=", callers)
		fmt.Fprintf(&b, "| a pair, %s | %s | %s |\n", callersText(callers), figure("ns", r.at(n, of, ours, "masters-ns/op")),
			figure("ns", r.at(n, of, redsyncs, "masters-ns/op")))
	}
	if renewal := r.at(n, "renewal", ours, "masters-ns/renewal"); !math.IsNaN(renewal) {
		const anHour = float64(time.Hour / (quorum.DefaultLease / 3))
		fmt.Fprintf(&b, "| a held lock for an hour, at the default lease | %s | |\n", figure("ns", renewal*anHour))
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
