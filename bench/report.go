package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// report is what a run found.
type report struct {
	size
	began    time.Time
	took     time.Duration
	load     string // of the machine, before the run
	revision string
	servers  string
	etcd     string // version and data, if it ran
	results  results
	profiles map[place]string // of budgets that were missed
}

//go:embed method.md
var method string

// save writes the report and its pictures into the directory's reports, and the figures into its scale.md.
// It does nothing without a directory.
func (r *report) save(dir string) error {
	if dir == "" {
		return nil
	}
	reports := filepath.Join(dir, "reports")
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return err
	}
	all, err := r.pictures()
	errs := []error{err, r.saveScale(filepath.Join(dir, "scale.md"))}
	for _, p := range all {
		errs = append(errs, p.save(reports))
	}
	file, err := os.Create(filepath.Join(reports, "bench.md"))
	if err == nil {
		err = errors.Join(r.write(file), file.Close())
	}
	return errors.Join(append(errs, err)...)
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
	all := lines(budgets, r.results)
	for _, section := range []struct{ title, text string }{
		{"Budgets", budgetTable(all)},
		{"Budgets that were missed", r.missed(all)},
		{"What a user may choose", r.choiceTables()},
		{"Growth", r.growthTables()},
		{"Details", details(all)},
	} {
		if section.text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s", section.title, section.text)
		}
	}
	b.WriteString("\n" + method)
	_, err := io.WriteString(to, b.String())
	return err
}

// budgetTable is empty if no budget was measured.
func budgetTable(all []line) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Processor time is in µs: callers + masters, for each pair, handoff or renewal. A line without a\n" +
		"budget is for comparison.\n\n" +
		"| what | N | quorumlock | beside it | | budget | | processor time | of the other |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	count, budgeted := 0, 0
	for _, l := range all {
		cpu := ""
		if l.isRatio() && l.beside.side != l.ours.side {
			cpu = l.outcome.cpu(l.beside.side)
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", l.what, l.at.n, l.outcome.text(l.ours),
			l.besideText(), l.valueText(), l.budgetText(), l.verdict(), l.outcome.cpu(l.ours.side), cpu)
		if l.kind != compare {
			budgeted++
		}
		if l.verdict() == met {
			count++
		}
	}
	fmt.Fprintf(&b, "\n%d of %d budgets met.\n", count, budgeted)
	return b.String()
}

// details returns the details of the lines' outcomes, each once.
func details(all []line) string {
	var b strings.Builder
	told := map[place]bool{}
	for _, l := range all {
		if told[l.at] {
			continue
		}
		told[l.at] = true
		texts := l.outcome.details
		if l.outcome.skipped != "" {
			texts = []string{"skipped: " + l.outcome.skipped}
		}
		for _, text := range texts {
			fmt.Fprintf(&b, "- **%s, N=%d**: %s.\n", l.test, l.at.n, text)
		}
	}
	return b.String()
}

// missed has the profiles of the budgets that were missed.
func (r *report) missed(all []line) string {
	var b strings.Builder
	told := map[place]bool{}
	for _, l := range all {
		if l.verdict() != notMet || told[l.at] {
			continue
		}
		told[l.at] = true
		fmt.Fprintf(&b, "### %s, N=%d\n\n%s", l.test, l.at.n, floors(l.outcome))
		if text := r.profiles[l.at]; text != "" {
			fmt.Fprintf(&b, "%s\n", text)
		}
	}
	return b.String()
}

// floors splits the time of a pair: a no-op script, what the masters do, what the engine does.
func floors(o *outcome) string {
	whole, _ := o.median(reading{ours, elapsed})
	scripts, _ := o.median(reading{sameScript, elapsed})
	least, measured := o.median(reading{noOp, elapsed})
	if !measured {
		return ""
	}
	if scripts > whole {
		return fmt.Sprintf("A pair takes %s. Two round trips of a script that does nothing, to all masters, take %s, and those "+
			"of the same scripts %s: the library takes less, because with many callers it asks a majority of the masters "+
			"first.\n\n", micros(whole), micros(least), micros(scripts))
	}
	return fmt.Sprintf("Of a pair's %s, two round trips of a script that does nothing take %s, the scripts %s more, "+
		"and the engine %s more.\n\n", micros(whole), micros(least), micros(scripts-least), micros(whole-scripts))
}
