package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/urfave/cli/v3"
)

func (p *program) checkCommand() *cli.Command {
	return p.masterCommand("check", "try a lock on each master alone, and show what makes masters unfit for locks", "URL...",
		func(flags *lineFlags, line *commandLine) {
			flags.boolean("json", "print JSON", &line.json)
			flags.value("name", "try the lock `NAME`, which nobody may hold, in place of a reserved one: the user may be restricted to some keys",
				"a lock's name", func(text string) error {
					line.tryName = text
					return checkLockName(text)
				})
			flags.duration("wait", "wait for `D` at most until a majority grants, out of quarantine: then the exit code is 0, "+
				"whatever state the others are in", time.Millisecond, &line.wait)
			flags.duration("wait-all", "wait for `D` at most until all masters grant: then the next one may be restarted",
				time.Millisecond, &line.waitAll)
		},
		func(ctx context.Context, line commandLine) int { return check(ctx, line, p.stdout, p.stderr) })
}

// check checks masters and prints a report. It fails when one of them is not fit for locks.
func check(ctx context.Context, line commandLine, stdout, stderr io.Writer) int {
	need := quorumSize(len(line.nodes), line.waitAll > 0)
	wait := max(line.wait, line.waitAll)
	found := checkAll(ctx, line, need, wait)
	addHints(ctx, found, line.nodes, line.urls)
	if ctx.Err() != nil {
		return exitInterrupted
	}
	failed := mixed(found) || slices.ContainsFunc(found, func(f finding) bool { return !f.isFit() })
	if wait > 0 {
		failed = granting(found) < need
	}
	if line.json {
		if err := printCheckJSON(stdout, found); err != nil {
			fmt.Fprintf(stderr, "quorumlock: check: %v\n", err)
			failed = true
		}
	} else {
		printCheck(stdout, found)
		if wait > 0 {
			fmt.Fprintf(stdout, "%d of %d masters grant: a majority is %d.\n",
				granting(found), len(found), quorumSize(len(found), false))
		}
	}
	if failed {
		return exitFailed
	}
	return exitOK
}

// pollInterval is how often check -wait looks at the masters.
const pollInterval = 500 * time.Millisecond

// checkAll checks the nodes: again for that long at most, until as many as needed grant.
func checkAll(ctx context.Context, line commandLine, need int, wait time.Duration) []finding {
	began := time.Now()
	for {
		found := each(ctx, line.nodes, checkOne)
		findTwins(found)
		tryAll(ctx, line.nodes, found, line.tryName)
		rest := wait - time.Since(began)
		if rest <= 0 || granting(found) >= need || !sleep(ctx, min(rest, pollInterval)) {
			return found
		}
	}
}

// printCheck prints the report on all masters.
func printCheck(out io.Writer, found []finding) {
	printFindings(out, found)
	printMembers(out, found)
	fit, waiting, tried := 0, 0, 0
	for _, f := range found {
		if f.isFit() {
			fit++
		}
		if f.state() == stateQuarantine {
			waiting++
		}
		if f.tried {
			tried++
		}
	}
	inQuarantine := ""
	if waiting > 0 {
		inQuarantine = fmt.Sprintf(", %d of these in quarantine", waiting)
	}
	fmt.Fprintf(out, "\n%d of %d masters are fit for locks%s.\n", fit, len(found), inQuarantine)
	if tried > 0 {
		fmt.Fprintf(out, "A lock was acquired, renewed and released on %d of these, each time alone, and its message was heard.\n", tried)
	}
	if waiting > 0 {
		fmt.Fprintln(out, "A master in quarantine grants nothing until its quarantine is over.")
	}
	if tried < fit {
		fmt.Fprintln(out, "No lock was tried on a master that is in quarantine, or that no client has used yet: check again when it grants.")
	}
	if len(found) < 3 || len(found)%2 == 0 {
		fmt.Fprintln(out, "redlock needs an odd number of masters, 3 or more to survive the loss of one")
	}
}

// printFindings prints a table, and below it the hazards and errors of each master.
func printFindings(out io.Writer, found []finding) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MASTER\tSTATE\tROLE\tVERSION\tUP\tROUND TRIP\tPERSISTENCE\tMAXMEMORY\tQUARANTINE")
	for _, f := range found {
		r := f.report
		if f.err != nil {
			fmt.Fprintf(table, "%s\t%s%s\n", f.name, f.state(), strings.Repeat("\t-", 7))
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%v\t%v\t%s\t%s\t%s\n", f.name, f.state(), r.Role, r.Version, r.Uptime,
			r.RoundTrip.Round(10*time.Microsecond), r.Persistence, memory(r), left(r.Quarantine))
	}
	table.Flush()

	for _, f := range found {
		notes := f.report.Hazards
		if f.err != nil {
			notes = append(notes, reason(f.err))
		}
		if f.unfit != nil {
			notes = append(notes, "a lock was tried: "+reason(f.unfit))
		}
		if f.hint != "" {
			notes = append(notes, f.hint)
		}
		if f.twin != "" {
			notes = append(notes, "it is one process with "+f.twin+": together they are one vote")
		}
		if len(notes) > 0 {
			fmt.Fprintf(out, "\n%s\n", f.name)
		}
		for _, note := range notes {
			fmt.Fprintf(out, "  - %s\n", note)
		}
	}
}

// acceptedLists returns the masters by the lists that they accept, and whether a change is under way.
func acceptedLists(found []finding) (by map[string][]string, under bool) {
	by = map[string][]string{}
	for _, f := range found {
		r := f.report
		if f.err != nil || len(r.Members) == 0 || len(r.Next) == 0 && !slices.Contains(r.Members, r.Member) {
			continue // a retired one accepts nobody
		}
		list := fmt.Sprintf("clients with %s (generation %d)", scripts.NewList(r.Members...), r.Generation)
		if len(r.Next) > 0 {
			list += fmt.Sprintf(", and with %s: a change is under way", scripts.NewList(r.Next...))
			under = true
		}
		by[list] = append(by[list], f.name)
	}
	return by, under
}

// mixed reports whether the masters accept different clients, by more than a change that is under
// way.
func mixed(found []finding) bool {
	by, under := acceptedLists(found)
	return len(by) > 1 && !under
}

// printMembers prints whose clients the masters accept.
func printMembers(out io.Writer, found []finding) {
	by, _ := acceptedLists(found)
	for i, list := range slices.Sorted(maps.Keys(by)) {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s: accept %s\n", strings.Join(by[list], ", "), list)
	}
	if len(by) > 1 {
		fmt.Fprintln(out, "The masters do not accept the same clients: see quorumlock members show.")
	}
}

func memory(r node.Report) string {
	if r.MaxMemory == 0 {
		return "no bound"
	}
	return fmt.Sprintf("%d MB, %s", r.MaxMemory>>20, r.EvictionPolicy)
}

func left(quarantine time.Duration) string {
	if quarantine == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1fs", quarantine.Seconds())
}
