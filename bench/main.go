// Bench judges the output of this module's benchmarks by the budgets. It writes a report, or fails if a budget is
// missed by more than its tolerance.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	root := flag.String("report", "", "write docs/reports/bench.md, and the figures in README.md, of the repository in this directory")
	revision := flag.String("revision", "", "the library's revision, for the report")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *root, *revision); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run writes a report, or else checks the budgets. A report needs only figures: it says which budgets are met.
func run(from io.Reader, to io.Writer, root, revision string) error {
	found, facts, err := read(from)
	errs := []error{err}
	for _, l := range lines(found) {
		fmt.Fprintln(to, l)
		if l.failed() && root == "" {
			errs = append(errs, fmt.Errorf("bench: worse than its budget by more than its tolerance: %v", l))
		}
	}
	if root != "" && err == nil {
		errs = append(errs, report{found, facts, revision}.save(root))
	}
	return errors.Join(errs...)
}
