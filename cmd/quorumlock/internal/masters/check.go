package masters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/hosts"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// Check finds what makes masters unfit for locks.
var Check = Command{
	Name: "check", Usage: "try a lock on each master alone, and show what makes masters unfit for locks", Arguments: "URL...",
	Help: `Give the URLs of all masters of the clients' list: masters refuse a client with a part of it.

Example, for monitoring:
  quorumlock check -json redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3

Exit codes: 0 if all masters grant and announce releases, or wait in a quarantine that is counted down, and their clocks
run as this machine's (with -wait: if a majority grants, with -wait-all: if all do), else 1. 2 if the command line is
invalid.`,
	Reads: true,
	Define: func(flags *cli.Flags) Action {
		c := &check{}
		flags.Boolean("json", "print JSON", &c.json)
		flags.Text("name", "try the lock `NAME`, which nobody may hold, in place of a reserved one: the user may be restricted to some keys",
			"a lock's name", func(name string) bool { return CheckLockName(name) == nil }, &c.tryName)
		flags.Duration("wait", "wait for `D` at most until a majority grants, out of quarantine: then the exit code is 0, "+
			"whatever state the others are in", time.Millisecond, &c.wait)
		flags.Duration("wait-all", "wait for `D` at most until all masters grant: then the next one may be restarted",
			time.Millisecond, &c.waitAll)
		return c.run
	},
}.Row()

type check struct {
	json    bool
	wait    time.Duration // for a majority that grants; 0 for not at all
	waitAll time.Duration // for all masters; likewise
	tryName string        // the lock to try; empty for a reserved one
}

// run checks masters and prints a report. It fails when one of them is not fit for locks.
func (c *check) run(ctx context.Context, p *cli.Program, line Line) int {
	if err := cmp.Or(twoNamed(line.Nodes), hosts.Mixed(line.Nodes)); err != nil { // no client takes them
		fmt.Fprintf(p.Stderr, "quorumlock: check: %v\n", err)
		return cli.ExitFailed
	}
	quorum := Quorum(len(line.Nodes), c.waitAll > 0)
	wait := max(c.wait, c.waitAll)
	found := c.all(ctx, line.Nodes, quorum, wait)
	compareRates(ctx, line.Nodes, found)
	Each(ctx, line.Nodes, func(ctx context.Context, i int, n *node.Node) error {
		if found[i].Err != nil {
			found[i].hint = TLSHint(ctx, n, line.urls[i], found[i].Err)
		}
		return nil
	})
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	lists, isChanging := acceptedLists(found)
	failed := len(lists) > 1 && !isChanging ||
		slices.ContainsFunc(found, func(f Finding) bool { return f.Refusal() != nil || f.unheard != nil || f.rate != "" })
	if wait > 0 {
		failed = !quorum.Enough(thoseThat(found, Finding.IsOK))
	}
	if c.json {
		failed = printCheckJSON(p.Stdout, found) != nil || failed
	} else {
		printCheck(p.Stdout, found, inside.Of(line.Nodes[0]).Replicas > 0)
		if c.waitAll > 0 && failed {
			fmt.Fprintln(p.Stdout, "With -wait-all, all of them must grant.")
		}
	}
	if failed {
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// all checks the nodes, again and again until enough of them grant, but no longer than that; with 0 once.
func (c *check) all(ctx context.Context, nodes []*node.Node, quorum quorate.Rule, wait time.Duration) []Finding {
	began := time.Now()
	for {
		look, stop := ctx, func() {}
		if wait > 0 { // also where a first connection may take longer
			look, stop = context.WithTimeout(ctx, max(wait-time.Since(began), nodes[0].Timeout()))
		}
		found := CheckAll(look, nodes)
		stop()
		askSentinels(ctx, nodes, found)
		tryAll(ctx, nodes, found, c.tryName)
		rest := wait - time.Since(began)
		if rest <= 0 || quorum.Enough(thoseThat(found, Finding.IsOK)) || !Sleep(ctx, min(rest, 500*time.Millisecond)) {
			return found
		}
	}
}

// printCheck prints what was found, for people. hasReplicas: the first master has replicas that may take its place.
func printCheck(out io.Writer, found []Finding, hasReplicas bool) {
	whole := partOf(found)
	if whole != nil {
		fmt.Fprintf(out, "Give the URLs of all masters of the list %s: they refuse a client with a part of it.\n\n", whole)
	}
	printFindings(out, found)
	printMembers(out, found)
	if whole != nil {
		fmt.Fprintf(out, "\nNo lock was tried: these are %d of the %d masters of that list.\n", len(found), whole.Len())
		return
	}
	count := func(holds func(Finding) bool) int { return thoseThat(found, holds).Len() }
	fit, tried := count(Finding.isFit), count(func(f Finding) bool { return f.tried })
	fmt.Fprint(out, "\n", granting(found))
	separator := ";"
	for _, are := range []struct {
		state     string
		isRefusal bool // the server answered, with an error
		one, many string
	}{
		{stateQuarantine, false, "is in quarantine", "are in quarantine"}, {stateBlank, false, "is blank", "are blank"},
		{stateHalfMarked, false, "is half-marked", "are half-marked"}, {stateRefused, false, "is refused", "are refused"},
		{stateFailed, true, "refuses to be checked", "refuse to be checked"}, {stateFailed, false, "does not answer", "do not answer"},
	} {
		if n := count(func(f Finding) bool { return f.is(are.state) && redisconn.IsServerError(f.Err) == are.isRefusal }); n > 0 {
			fmt.Fprintf(out, "%s %d %s", separator, n, map[bool]string{true: are.one, false: are.many}[n == 1])
			separator = ","
		}
	}
	fmt.Fprintln(out, ".")
	if tried > 0 {
		announced := "and the release was announced to waiters"
		if unheard := count(func(f Finding) bool { return f.unheard != nil }); unheard > 0 {
			announced = fmt.Sprintf("but no waiter hears of the release on %d: they poll", unheard)
		}
		fmt.Fprintf(out, "A lock was acquired, renewed and released on %d of these, each time alone, %s.\n", tried, announced)
	}
	if count(func(f Finding) bool { return f.is(stateQuarantine) }) > 0 {
		fmt.Fprintln(out, "A master in quarantine grants nothing until its quarantine is over.")
	}
	if tried < fit {
		fmt.Fprintln(out, "No lock was tried on a master that is in quarantine, blank or half-marked, or that no client has used yet: check again when it grants.")
	}
	quorum, grant := Quorum(len(found), false), thoseThat(found, Finding.IsOK).Len()
	if outlook := Outlook(found, quorum); outlook != "" {
		fmt.Fprintln(out, strings.ToUpper(outlook[:1])+outlook[1:]+".")
	} else if grant < len(found) {
		fmt.Fprintf(out, "Locks are granted: %d masters must grant, so %d more may fail.\n", quorum.Need, grant-quorum.Need)
	}
	_, isChanging := acceptedLists(found) // by one master at a time: every other list is even
	if (len(found) < 3 || len(found)%2 == 0) && !(len(found) == 1 && hasReplicas) && !isChanging {
		fmt.Fprintln(out, "redlock needs an odd number of masters, 3 or more to survive the loss of one")
	}
}

// printFindings prints a table, and below it the hazards and errors of each master.
func printFindings(out io.Writer, found []Finding) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MASTER\tSTATE\tROLE\tVERSION\tUP\tROUND TRIP\tPERSISTENCE\tMAXMEMORY\tQUARANTINE")
	for _, f := range found {
		r := f.Report
		if f.Err != nil {
			fmt.Fprintf(table, "%s\t%s%s\n", f.Name, f.State(), strings.Repeat("\t-", 7))
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%v\t%v\t%s\t%s\t%s\n", f.Name, f.State(), role(r), r.Version, r.Uptime,
			r.RoundTrip.Round(10*time.Microsecond), r.Persistence, memory(r), f.Quarantine())
	}
	table.Flush()

	var groups plain.Grouped // of masters, by their notes
	for _, f := range found {
		if notes := f.notes(); len(notes) > 0 {
			groups.Add(f.Name, "  - "+strings.Join(notes, "\n  - ")+"\n")
		}
	}
	for _, g := range groups {
		fmt.Fprintf(out, "\n%s\n%s", g, g.Reason)
	}
}

func (f Finding) notes() []string {
	notes := slices.Clone(f.Report.Hazards)
	switch {
	case f.unfit != nil:
		notes = append(notes, "a lock was tried: "+Reason(f.unfit))
	case f.twin != "":
		notes = append(notes, "it is the same process as "+f.twin+": together they are one vote")
	case f.ready.Err != nil && f.Report.Refused == nil && f.Report.RefusesWrites == nil: // these are hazards
		notes = append(notes, Reason(f.ready.Err))
	}
	if errors.Is(f.Report.Refused, node.ErrMaxLease) {
		notes = append(notes, giveMaxLease)
	}
	if f.unheard != nil {
		notes = append(notes, "a lock was tried, and it grants, but waiters only poll: "+Reason(f.unheard))
	}
	for _, note := range []string{f.rate, f.hint} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// acceptedLists returns the masters by the lists that they accept, and whether a change is under way.
func acceptedLists(found []Finding) (by map[string][]string, under bool) {
	by = map[string][]string{}
	for _, f := range found {
		r := f.Report
		if f.Err != nil || len(r.Members) == 0 || len(r.Next) == 0 && !slices.Contains(r.Members, r.Member) {
			continue // a retired one accepts nobody
		}
		list := fmt.Sprintf("clients with %s (generation %d)", scripts.NewList(r.Members...), r.Generation)
		if len(r.Next) > 0 {
			list += fmt.Sprintf(", and with %s: a change is under way", scripts.NewList(r.Next...))
			under = true
		}
		by[list] = append(by[list], f.Name)
	}
	return by, under
}

// partOf returns the list of all masters that answer and have one, if the masters that were checked are only a part of it;
// otherwise nil.
func partOf(found []Finding) (whole *scripts.List) {
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.Name
	}
	given := scripts.NewList(names...)
	for _, f := range found {
		view := f.Look().View
		if view == nil || view.IsBlank() {
			continue
		}
		list, next := view.Marker().Members, view.Marker().Next
		isOutside := func(name string) bool { return !list.Has(name) }
		if whole != nil && !whole.Equal(list) || given.Len() >= list.Len() || slices.ContainsFunc(given.Names(), isOutside) ||
			next.Equal(given) {
			return nil
		}
		whole = list
	}
	return whole
}

func printMembers(out io.Writer, found []Finding) {
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

// role is "master+2" of a master with two replicas that acknowledge each lock.
func role(r operator.Report) string {
	if r.Replicas == 0 || r.Role != "master" {
		return r.Role
	}
	return fmt.Sprintf("%s+%d", r.Role, r.Replicas)
}

func memory(r operator.Report) string {
	if r.MaxMemory == 0 {
		return "no bound"
	}
	return fmt.Sprintf("%d MB, %s", r.MaxMemory>>20, r.EvictionPolicy)
}

// Quarantine says what is left of the master's quarantine.
func (f Finding) Quarantine() string {
	switch {
	case f.Report.Refused != nil:
		return "-"
	case f.is(stateBlank):
		return "not begun"
	case f.claimed:
		return Left(f.ready.In)
	}
	return Left(f.Report.Quarantine)
}

// Left formats what is left of a quarantine, at least 0.1s unless it is over.
func Left(quarantine time.Duration) string {
	if quarantine == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1fs", max(quarantine.Seconds(), 0.1))
}
