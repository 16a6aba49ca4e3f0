package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/urfave/cli/v3"
)

// admitBelief is what the operator asserts, and admit cannot check.
const admitBelief = `no lease is alive that one of these masters granted, or any master whose place it takes in the
clients' lists: for one max lease, no client has held a lock there or asked for one.`

// membersBelief is what the operator says with -members.
const membersBelief = `And: these are all masters of every client's list, and no client with another list
locks any more, or can hold a lock that one of them granted.`

const admitMeaning = `The masters then grant new locks at once. If you are wrong, two holders are possible.
An empty spare in a dead master's place holds no lock, but the dead master's locks may still be held.
`

// admission is the result for one node.
type admission struct {
	name   string
	before node.Report
	err    error
}

func (p *program) admitCommand() *cli.Command {
	return p.masterCommand("admit", "end the quarantine of masters, if no lock can still be held that they, "+
		"or masters whose place they take, granted", "URL...",
		func(flags *lineFlags, line *commandLine) {
			flags.boolean("yes", "assert that, and do it", &line.yes)
			flags.boolean("members", "the URLs are all masters of the clients' list, and let in these clients only",
				&line.members)
		},
		func(ctx context.Context, line commandLine) int { return admit(ctx, line, p.stdout, p.stderr) })
}

// admit ends the quarantine of masters, as the operator asserts that it may.
func admit(ctx context.Context, line commandLine, stdout, stderr io.Writer) int {
	names := make([]string, len(line.nodes))
	for i, n := range line.nodes {
		names[i] = n.Name()
	}
	list := scripts.NewList(names...)
	if !line.yes {
		askAssertion(ctx, line, list, stderr)
		return exitUsage
	}
	found := each(ctx, line.nodes, checkOne)
	if line.members {
		if err := areProcesses(line.nodes, found); err != nil {
			fmt.Fprintf(stderr, "quorumlock: admit: %v\n", err)
			return exitFailed
		}
	}
	before := map[*node.Node]finding{}
	for i, n := range line.nodes {
		before[n] = found[i]
	}
	done := each(ctx, line.nodes, func(ctx context.Context, n *node.Node) admission {
		a := admission{name: n.Name(), before: before[n].report, err: before[n].err}
		if a.err != nil {
			return a
		}
		if line.members {
			a.err = n.AdmitMembers(ctx, list.Names())
		} else {
			a.err = n.Admit(ctx) // it refuses what Lock refuses, except another max lease, which it replaces
		}
		return a
	})
	allAdmitted := printAdmissions(done, line, list, stdout)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case !allAdmitted:
		return exitFailed
	}
	return exitOK
}

// areProcesses returns why nodes may not be one list: two are one process.
func areProcesses(nodes []*node.Node, found []finding) error {
	seen := map[string]*node.Node{}
	for i, f := range found {
		if f.err != nil || f.report.RunID == "" {
			continue
		}
		if other := seen[f.report.RunID]; other != nil {
			return errOneProcess(other, nodes[i])
		}
		seen[f.report.RunID] = nodes[i]
	}
	return nil
}

// belief returns what the operator asserts.
func (line commandLine) belief() string {
	if line.members {
		return admitBelief + "\n" + membersBelief
	}
	return admitBelief
}

// askAssertion prints what admit needs the operator to assert, and what each master says now.
func askAssertion(ctx context.Context, line commandLine, list *scripts.List, out io.Writer) {
	fmt.Fprintf(out, "quorumlock: with admit you assert that %s\n", line.belief())
	if line.members {
		fmt.Fprintf(out, "The masters would let in clients with the list %s only.\n", list)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range each(ctx, line.nodes, checkOne) {
		fmt.Fprintf(table, "%s\t%s\n", f.name, nowIs(f))
	}
	table.Flush()
	fmt.Fprint(out, "\n"+admitMeaning+"To assert it: the same command with -yes.")
	if !line.members {
		fmt.Fprint(out, "   Or let all masters answer, and wait one max lease.")
	}
	fmt.Fprintln(out)
}

// printAdmissions prints the result for each master, and what was asserted. It returns false
// when one was not admitted.
func printAdmissions(done []admission, line commandLine, list *scripts.List, out io.Writer) bool {
	admitted, unlisted := 0, false
	maxLease := line.nodes[0].MaxLease()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, a := range done {
		if a.err != nil {
			fmt.Fprintf(table, "%s\tNOT ADMITTED\t%s\n", a.name, reason(a.err))
			continue
		}
		admitted++
		what := "was not in quarantine"
		switch {
		case isUnused(a.before, maxLease):
			what = "its quarantine had not begun"
		case a.before.Quarantine > 0:
			what = fmt.Sprintf("quarantine ended, %s before its time", left(a.before.Quarantine))
		}
		whom := "lets in clients with " + scripts.NewList(a.before.Members...).String()
		switch {
		case line.members:
			whom = "lets in clients with " + list.String()
		case len(a.before.Members) == 0:
			whom, unlisted = "has no list of masters yet", true
		}
		fmt.Fprintf(table, "%s\tadmitted\t%s; max lease %v; %s\n", a.name, what, maxLease, whom)
	}
	table.Flush()
	if unlisted {
		fmt.Fprintf(out, "\nA master without a list gets it from its first client, "+
			"and waits in quarantine unless that comes within %v.\n", maxLease)
	}
	if admitted > 0 {
		fmt.Fprintf(out, "\nYou asserted that %s\n", line.belief())
	}
	return admitted == len(done)
}

// nowIs says what a master is before it is admitted.
func nowIs(f finding) string {
	r := f.report
	switch {
	case f.err != nil:
		return "does not answer: " + reason(f.err)
	case len(r.Members) == 0:
		return "has no list of masters: it is new, or has forgotten"
	case r.Quarantine > 0:
		return fmt.Sprintf("lets in clients with %s; in quarantine for another %s",
			scripts.NewList(r.Members...), left(r.Quarantine))
	default:
		return fmt.Sprintf("lets in clients with %s; not in quarantine", scripts.NewList(r.Members...))
	}
}
