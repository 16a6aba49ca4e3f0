package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// wholePackage stands for a test's name if the package failed and no test did: a leaked
// goroutine, a panic, a race after the last test.
const wholePackage = "(the package)"

// result is one run of a package's tests.
type result struct {
	dir      string
	took     time.Duration
	seed     string // of the shuffle
	ended    int    // tests
	skipped  int    // tests
	failures []failure
}

type failure struct {
	test string
	text string
}

// nothingRan returns an error if no test ran to its end.
func (r *result) nothingRan(filter string) error {
	switch r.ended {
	case 0:
		return fmt.Errorf("no test matches %q", filter)
	case r.skipped:
		return errors.New("every test was skipped")
	}
	return nil
}

// names returns the tests that failed.
func (r *result) names() (all []string) {
	for _, f := range r.failures {
		all = append(all, f.test)
	}
	return all
}

// event is a line of test2json.
type event struct {
	Action string
	Test   string
	Output string
}

// parse takes the events of one run. A test whose subtest has failed is not counted beside it.
func parse(lines []byte) *result {
	r := &result{}
	printed := map[string]*strings.Builder{}
	under := map[string]bool{} // tests with a subtest that failed
	var failed []string
	for line := range bytes.Lines(lines) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e.Action {
		case "output":
			if seed, ok := strings.CutPrefix(e.Output, "-test.shuffle "); ok && e.Test == "" {
				r.seed = strings.TrimSpace(seed)
			}
			if printed[e.Test] == nil {
				printed[e.Test] = &strings.Builder{}
			}
			printed[e.Test].WriteString(e.Output)
		case "pass", "skip", "fail":
			if e.Test == "" {
				continue
			}
			r.ended++
			if e.Action == "skip" {
				r.skipped++
			}
			if e.Action == "fail" {
				failed = append(failed, e.Test)
				for parent := e.Test; strings.Contains(parent, "/"); {
					parent = parent[:strings.LastIndex(parent, "/")]
					under[parent] = true
				}
			}
		}
	}
	text := func(test string) string {
		if printed[test] == nil {
			return ""
		}
		return printed[test].String()
	}
	for _, test := range failed {
		if !under[test] {
			r.failures = append(r.failures, failure{test, text(test)})
		}
	}
	return r
}
