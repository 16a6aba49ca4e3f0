package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// admitBelief is the operator's word, which admit cannot check.
const admitBelief = `no lease can be alive that one of these masters granted, or any master whose place it takes in the
clients' lists: for one max lease no client has held, or asked for, a lock there.`

const admitMeaning = `quorumlock: admit is your word that ` + admitBelief + `
They grant new locks at once. Where your word is wrong, two holders are possible. An empty spare in a dead master's
place holds no lock, but the dead master's locks may still be held.
To give it: quorumlock admit -yes URL...   To do without: wait one max lease.
`

// admission is the result for one node.
type admission struct {
	name string
	left time.Duration // the quarantine that admit cut short
	err  error
}

// admit ends the quarantine of masters on the operator's word.
func admit(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	line, code, ok := parse("admit", args, stdout, stderr)
	if !ok {
		return code
	}
	defer closeAll(line.nodes)
	if !line.yes {
		fmt.Fprint(stderr, admitMeaning)
		return exitUsage
	}

	done := each(ctx, line.nodes, admitOne)
	code = exitOK
	admitted := false
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for i, a := range done {
		admitted = admitted || a.err == nil
		switch {
		case a.err != nil:
			code = exitFailed
			fmt.Fprintf(table, "%s\tNOT ADMITTED\t%s\n", a.name, reason(a.err))
		case a.left > 0:
			fmt.Fprintf(table, "%s\tadmitted\tquarantine ended, %s before its time; max lease %v\n",
				a.name, left(a.left), line.nodes[i].MaxLease())
		default:
			fmt.Fprintf(table, "%s\tadmitted\twas not in quarantine; max lease %v\n", a.name, line.nodes[i].MaxLease())
		}
	}
	table.Flush()
	if admitted {
		fmt.Fprintf(stdout, "\nOn your word that %s\n", admitBelief)
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return code
}

func admitOne(ctx context.Context, n *node.Node) admission {
	report, err := n.Check(ctx)
	if err == nil {
		err = n.Admit(ctx) // it refuses what Lock refuses, except another max lease, which it replaces
	}
	return admission{name: n.Name(), left: report.Quarantine, err: err}
}
