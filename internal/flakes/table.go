package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// table counts runs and failures. It is safe for concurrent use.
type table struct {
	mu       sync.Mutex
	packages []*row
}

// row is one package.
type row struct {
	dir     string
	runs    int
	broken  int // runs in which a test failed
	longest time.Duration
	flakes  map[string]*flake
}

// flake is a test that has failed.
type flake struct {
	test     string
	failures int
	first    string // the text of the first failure
	seed     string // of the shuffle of that run
}

func (t *table) add(r *result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.packages, func(p *row) bool { return p.dir == r.dir })
	if i < 0 {
		i = len(t.packages)
		t.packages = append(t.packages, &row{dir: r.dir, flakes: map[string]*flake{}})
	}
	p := t.packages[i]
	p.runs++
	p.longest = max(p.longest, r.took)
	if len(r.failures) > 0 {
		p.broken++
	}
	for _, f := range r.failures {
		if p.flakes[f.test] == nil {
			p.flakes[f.test] = &flake{test: f.test, first: f.text, seed: r.seed}
		}
		p.flakes[f.test].failures++
	}
}

func (t *table) failed() bool {
	return slices.ContainsFunc(t.packages, func(p *row) bool { return p.broken > 0 })
}

// print writes the table, and below it the first failure of each test in full.
func (t *table) print(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.packages, func(a, b *row) int { return cmp.Compare(a.dir, b.dir) })
	fmt.Fprint(w, "| package | test | runs | failures | first failure |\n|---|---|---|---|---|\n")
	for _, p := range t.packages {
		fmt.Fprintf(w, "| %s | all (longest run %v) | %d | %d | |\n", p.dir, p.longest.Round(time.Second), p.runs, p.broken)
		for _, f := range p.worstFirst() {
			fmt.Fprintf(w, "| %s | %s | %d | %d | %s |\n", p.dir, f.test, p.runs, f.failures, essence(f.first))
		}
	}
	for _, p := range t.packages {
		for _, f := range p.worstFirst() {
			fmt.Fprintf(w, "\n--- %s %s -test.shuffle=%s\n%s", p.dir, f.test, f.seed, f.first)
		}
	}
}

func (p *row) worstFirst() []*flake {
	return slices.SortedFunc(maps.Values(p.flakes), func(a, b *flake) int {
		return cmp.Or(cmp.Compare(b.failures, a.failures), cmp.Compare(a.test, b.test))
	})
}

// reported is a line of a test's log, or the cause of a process's end.
var reported = regexp.MustCompile(`(?m)^([ \t]*\w+\.go:\d+|panic|fatal error): .*$`)

// essence returns the first line of a failure that tells something, cut for a cell.
func essence(text string) string {
	const most = 160
	for line := range strings.Lines(cmp.Or(reported.FindString(text), text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		line = strings.ReplaceAll(line, "|", "/")
		if len(line) > most {
			line = strings.ToValidUTF8(line[:most], "") + " …"
		}
		return line
	}
	return ""
}
