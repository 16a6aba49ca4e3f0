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
	beside  string // whose figure the other one is
	theirs  string
	ratio   string // ours to theirs, where the budget is one
	budget  string // empty where the figures are for comparison
	met     bool
	details string // a sentence below the table
}

// verdict is for people who look for a word.
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
		"Written by `make bench`, never by hand. All figures are of one run, in which the sides took turns on the same servers: the\n" +
		"ratios are what counts, not the figures of a machine that others used at the same time.\n\n")
	for _, fact := range r.facts() {
		fmt.Fprintf(&b, "- %s\n", fact)
	}
	b.WriteString("\n| what | quorumlock | beside it | ratio | budget | |\n|---|---|---|---|---|---|\n")
	met, all := 0, 0
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", row.what, row.ours, strings.TrimSpace(row.beside+" "+row.theirs), row.ratio, row.budget, row.verdict())
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

- A pair is one lock and one unlock of a name that nobody else wants. Times are those of a slice of the run divided by the pairs done
  in it. Each round runs every side for one slice, in turns and each second round backwards; a figure is the median over the
  rounds, a ratio the median of the rounds' own ratios, so it need not be the quotient of the two figures.
- redsync runs over redigo with connections enough for all callers, and without contention with one try and an answer as soon as a
  majority gave it (WithTries(1), WithFailFast(true)). Such an answer leaves stragglers behind: each caller goes through many names,
  so that none of them meets its own. Where callers contend, it has its defaults.
- The no-op is the script of a renewal of no locks, which touches no key, fanned out twice over the library's own pipelines, each
  time until a majority has answered. "Same scripts" is the same with the scripts of acquire and release: what the library takes
  beyond it is its engine's share, what it takes beyond the no-op the masters'.
- Processor time is that of the callers' process and of the masters, as the system accounts for it. It grows less than the time that passes
  when others use the machine; it is for comparison, no budget is about it.
- Allocations are those of the whole process during the slices of one caller.
- A frozen master is stopped with SIGSTOP during a whole slice, longer than the time-out after which the library takes it for dead.
  Each round freezes another one, for each peer by itself.
- A handoff is the time for which a lock that somebody in another process waited for lay idle: from before the call that unlocks it in
  one process to after the call that locks it in another, by the machine's monotonic clock. With 8 contenders each holds the lock for
  1 ms and stays away for 5 ms, so that others come by while it is free; "to one who waits" is 64 locks with two contenders each, which
  hold and stay away for 260 ms, longer than anybody sleeps between attempts: then only the one who waits can take it.
- Held locks are acquired, and kept for longer than their lease. Heap and goroutines are compared before and after, the names not
  counted; commands and renewals are counted by the masters.
`
