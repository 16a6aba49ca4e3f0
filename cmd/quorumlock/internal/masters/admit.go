package masters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/hosts"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// admitBelief is what the operator asserts, and admit cannot check.
const admitBelief = `no lease is alive that one of these masters granted, or a master whose place it takes in the
clients' lists. That holds once no client has held or requested a lock there for one max lease.`

const membersBelief = `You also assert that these are all masters of every client's list, and that no client with
another list still locks, or can hold a lock that one of them granted.`

const admitMeaning = `The masters then grant new locks at once. If you are wrong, two holders are possible.
An empty spare in a dead master's place holds no lock, but the dead master's locks may still be held.
`

// Admit ends the quarantine of masters.
var Admit = Command{
	Name: "admit", Usage: "end the quarantine of masters, if no lock can still be held that they " +
		"granted, or masters whose place they take", Arguments: "URL...",
	Help: `Example, for a deployment of new masters only:
  quorumlock admit -yes redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3

Exit codes: 0 if all masters were admitted, 1 if one was not, 2 without -yes or if the command line is invalid.`,
	Define: func(flags *cli.Flags) Action {
		a := &admit{}
		flags.Boolean("yes", "assert that no such lock is held, and admit them", &a.yes)
		flags.Boolean("members", "the URLs are all masters of the clients' list: accept clients with that list only",
			&a.members)
		return a.run
	},
}.Row()

type admit struct{ yes, members bool }

func (a *admit) run(ctx context.Context, p *cli.Program, line Line) int {
	nodes, list := line.Nodes, List(line.Nodes)
	if err := cmp.Or(twoNamed(nodes), hosts.Mixed(nodes)); a.members && err != nil {
		fmt.Fprintf(p.Stderr, "quorumlock: admit: %v\n", err)
		return cli.ExitFailed
	}
	if !a.yes {
		a.askAssertion(ctx, nodes, list, p.Stderr)
		return cli.ExitUsage
	}
	found := CheckAll(ctx, nodes)
	askSentinels(ctx, nodes, found)
	if a.members {
		if err := areProcesses(nodes, found); err != nil {
			fmt.Fprintf(p.Stderr, "quorumlock: admit: %v\n", err)
			return cli.ExitFailed
		}
	}
	errs := Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) error {
		switch {
		case found[i].Err != nil:
			return found[i].Err
		case found[i].two != nil:
			return found[i].two
		case a.members:
			return operator.AdmitMembers(ctx, n, list.Names())
		}
		return operator.Admit(ctx, n) // like Lock it refuses unfit masters, but it replaces another max lease
	})
	allAdmitted := a.printAdmissions(found, errs, nodes[0].MaxLease(), list, p.Stdout)
	switch {
	case ctx.Err() != nil:
		return cli.ExitInterrupted
	case !allAdmitted:
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// areProcesses returns why nodes may not be one list: two of them are the same process.
func areProcesses(nodes []*node.Node, found []Finding) error {
	for i, f := range found {
		isTwin := func(other Finding) bool { return other.Report.RunID != "" && other.Report.RunID == f.Report.RunID }
		if first := slices.IndexFunc(found, isTwin); first >= 0 && first < i {
			return TwinError(nodes[first], nodes[i])
		}
	}
	return nil
}

// TwinError says that two nodes are the same process.
func TwinError(a, b *node.Node) error {
	return fmt.Errorf("%s (%s) and %s (%s) are one process, and one process is one vote: give each master a process of its own",
		a.Name(), a.Address(), b.Name(), b.Address())
}

func (a *admit) belief() string {
	if a.members {
		return admitBelief + "\n" + membersBelief
	}
	return admitBelief
}

func (a *admit) askAssertion(ctx context.Context, nodes []*node.Node, list *scripts.List, out io.Writer) {
	fmt.Fprintf(out, "quorumlock: with admit you assert that %s\n", a.belief())
	if a.members {
		fmt.Fprintf(out, "The masters would accept only clients with %s.\n", list)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range CheckAll(ctx, nodes) {
		fmt.Fprintf(table, "%s\t%s\n", f.Name, nowIs(f))
	}
	table.Flush()
	fmt.Fprint(out, "\n"+admitMeaning+"To assert it: the same command with -yes.")
	if !a.members {
		fmt.Fprint(out, "   Or start all masters, and wait one max lease.")
	}
	fmt.Fprintln(out)
}

// printAdmissions prints the result for each master, and what was asserted. It returns false when one was not admitted.
func (a *admit) printAdmissions(before []Finding, errs []error, maxLease time.Duration, list *scripts.List, out io.Writer) bool {
	admitted, unlisted := 0, false
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, f := range before {
		if errs[i] != nil {
			fmt.Fprintf(table, "%s\tNOT ADMITTED\t%s\n", f.Name, Reason(errs[i]))
			continue
		}
		admitted++
		what := "was not in quarantine"
		switch {
		case f.IsUnused():
			what = "its quarantine had not begun"
		case f.IsHalfMarked(): // its quarantine is over
		case f.Report.Quarantine > 0:
			what = fmt.Sprintf("quarantine ended, %s before its time", Left(f.Report.Quarantine))
		}
		whom := "accepts clients with " + scripts.NewList(f.Report.Members...).String()
		switch m := f.Look().View.Marker(); { // it was looked at: only then it is admitted
		case a.members:
			whom = "accepts clients with " + list.String()
		case outside(f) != "":
			whom = outside(f)
		case len(f.Report.Members) > 0:
		case m.Members.Len() > 0:
			whom = fmt.Sprintf("accepts clients with %s as soon as one locks and finds a majority with it, or all of them", m.Members)
		default:
			whom, unlisted = "has no list of masters yet", true
		}
		fmt.Fprintf(table, "%s\tadmitted\t%s; max lease %v; %s%s\n", f.Name, what, maxLease, replicas(f), whom)
	}
	table.Flush()
	if unlisted {
		fmt.Fprintf(out, "\nA master without a list gets it from a client once a majority has that list, or all its masters answer, "+
			"and waits in quarantine unless that comes within %v.\n", maxLease)
	}
	if admitted > 0 {
		fmt.Fprintf(out, "\nYou asserted that %s\n", a.belief())
	}
	return admitted == len(before)
}

// outside says that a master accepts nobody, because it is none of its own list; it is empty for others.
func outside(f Finding) string {
	m := f.Look().View.Marker()
	switch {
	case m.Members.Len() == 0 || m.Members.Has(m.Member) || len(f.Report.Next) > 0:
		return ""
	case m.Claimed || m.Next.Len() > 0: // the admission changes nothing of that
		return fmt.Sprintf("is being added to %s, and accepts nobody until the same members add goes on", m.Members)
	}
	return fmt.Sprintf("is no member of %s, and accepts nobody", m.Members)
}

// replicas says how many replicas acknowledge each lock from now on, if there are or were any.
func replicas(f Finding) string {
	view := f.Look().View
	now, before := view.Process.Replicas(), view.Marker().Replicas()
	switch {
	case view.DiffersInReplicas() != nil:
		return fmt.Sprintf("replicas that acknowledge each lock: %d, no longer %d; ", now, before)
	case now > 0:
		return fmt.Sprintf("replicas that acknowledge each lock: %d; ", now)
	}
	return ""
}

func nowIs(f Finding) string {
	r := f.Report
	switch {
	case f.Err != nil:
		return "cannot be checked: " + Reason(f.Err)
	case errors.Is(r.Refused, node.ErrMaxLease), errors.Is(r.Refused, node.ErrFailover): // which admit changes
		return r.Refused.Error()
	case f.claimed && f.ready.In > 0:
		return "it is being marked, and accepts nobody; in quarantine for another " + Left(f.ready.In)
	case f.claimed:
		return "it is being marked, and accepts nobody"
	case outside(f) != "":
		return outside(f)
	case len(r.Members) == 0 && f.Look().View.Marker().Members.Len() > 0:
		return fmt.Sprintf("accepts nobody until a client with %s marks it", f.Look().View.Marker().Members)
	case len(r.Members) == 0:
		return "has no list of masters: it is new, or has forgotten"
	case r.Quarantine > 0:
		return fmt.Sprintf("accepts clients with %s; in quarantine for another %s",
			scripts.NewList(r.Members...), Left(r.Quarantine))
	}
	return fmt.Sprintf("accepts clients with %s; not in quarantine", scripts.NewList(r.Members...))
}
