package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// row is one line of the report.
type row struct {
	what    string
	ours    string // the library's figure
	beside  string // the name of the other figure
	theirs  string
	ratio   string // ours to theirs, where the budget is a ratio
	budget  string // empty where the figures are for comparison only
	met     bool
	details string // a sentence below the table
}

// verdict is the row's result in a word that readers can search for.
func (r row) verdict() string {
	switch {
	case r.budget == "":
		return ""
	case r.met:
		return "MET"
	default:
		return "NOT MET"
	}
}

type report struct {
	began    time.Time
	took     time.Duration
	revision string
	servers  string
	rows     []row
}

func (r *report) add(rows ...row) { r.rows = append(r.rows, rows...) }

func (r *report) save(path string) error {
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

func (r *report) write(to io.Writer) error {
	var b strings.Builder
	b.WriteString("# Measured\n\n" +
		"Written by `make bench`, never by hand. All figures are of one run, in which the sides took\n" +
		"turns on the same servers. The ratios count, not the absolute figures: the machine may have\n" +
		"had other users at the same time.\n\n")
	for _, fact := range r.facts() {
		fmt.Fprintf(&b, "- %s\n", fact)
	}
	b.WriteString("\n| what | quorumlock | beside it | ratio | budget | |\n|---|---|---|---|---|---|\n")
	met, all := 0, 0
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", row.what, row.ours,
			strings.TrimSpace(row.beside+" "+row.theirs), row.ratio, row.budget, row.verdict())
		if row.budget != "" {
			all++
		}
		if row.verdict() == "MET" {
			met++
		}
	}
	fmt.Fprintf(&b, "\n%d of %d budgets met.\n", met, all)
	if details := r.details(); details != "" {
		b.WriteString("\n## Details\n\n" + details)
	}
	b.WriteString(method)
	_, err := io.WriteString(to, b.String())
	return err
}

func (r *report) details() string {
	var b strings.Builder
	for _, row := range r.rows {
		if row.details != "" {
			fmt.Fprintf(&b, "- **%s**: %s.\n", row.what, row.details)
		}
	}
	return b.String()
}

const method = `
## How it is measured

- A pair is one lock and one unlock of an uncontended name. Its time is that of a slice of the run divided by
  the pairs in it. Each round runs every side for one slice, in turns and each second round backwards. A
  figure is the median over the rounds. A ratio is the median of the rounds' own ratios, so it need not be the
  quotient of the two figures.
- redsync runs over redigo with enough connections for all callers. Without contention it has one try and
  answers as soon as a majority has answered (WithTries(1), WithFailFast(true)). Such an answer leaves
  stragglers behind: each caller goes through many names, so that none of them meets its own. Under contention
  redsync has its defaults.
- The no-op is the script of a renewal of no locks, which touches no key, fanned out twice over the library's
  own pipelines, each time until a majority has answered. "Same scripts" is the same with the scripts of
  acquire and release. The library's time above "same scripts" is its engine's share, the time of "same
  scripts" above the no-op the masters'.
- Processor time is that of the callers' process and of the masters, as the system accounts for it. Other
  users of the machine increase it less than they increase elapsed time. It is for comparison, and has no
  budget.
- Allocations are those of the whole process during the slices of one caller.
- A frozen master is stopped with SIGSTOP during a whole slice, longer than the timeout after which the
  library takes it for dead. Each round freezes another master, for each peer by itself.
- A handoff is the idle time of a lock with a waiter in another process: from before the call that unlocks it
  in one process to after the call that locks it in another, by the machine's monotonic clock. With 8
  contenders each one holds the lock for 1 ms and stays away for 5 ms, so newcomers arrive while it is free.
  "To a waiter" is 64 locks with two contenders each, which hold and stay away for 260 ms, longer than any
  sleep between attempts: only the waiter can then take the lock.
- Held locks are acquired, and kept for longer than their lease. Heap and goroutines are compared before and
  after, without the names. The masters count commands and renewals.
`
