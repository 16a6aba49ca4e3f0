package main

import (
	"errors"
	"fmt"
	"io"
)

// tolerance is how many times worse than its budget a line may be: the machine may have other
// users.
const tolerance = 4.0 / 3

// check prints each budget's line, and returns an error that names those that are worse than their
// budget by more than a third, or were not measured.
func check(to io.Writer, all []line) error {
	var failed []error
	for _, l := range all {
		if l.kind == compare {
			continue
		}
		text := fmt.Sprintf("%s, N=%d: %s, budget %s", l.what, l.at.n, l.valueText(), l.budgetText())
		if l.isRatio() {
			text += " of " + l.beside.side
		}
		reason := ""
		if l.outcome.skipped != "" {
			reason = ": " + l.outcome.skipped
		}
		fmt.Fprintf(to, "%-8s %s%s\n", l.verdict(), text, reason)
		if l.outcome.skipped == "" && !(l.ok && l.excess() <= tolerance) {
			failed = append(failed, errors.New("bench: worse than its budget by more than a third: "+text))
		}
	}
	if len(all) == 0 {
		return errors.New("bench: no budget was measured")
	}
	return errors.Join(failed...)
}
