package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

const admitMeaning = `quorumlock: admit is your word that no lock these masters ever granted can still be held: they grant new ones at once.
Where that is wrong, two holders are possible. To give it: quorumlock admit -yes URL...   To do without: wait one max lease.
`

// admission is what became of one node.
type admission struct {
	name string
	was  time.Duration // the quarantine that was left
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
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for i, a := range done {
		switch {
		case a.err != nil:
			code = exitFailed
			fmt.Fprintf(table, "%s\tNOT ADMITTED\t%s\n", a.name, reason(a.err))
		case a.was > 0:
			fmt.Fprintf(table, "%s\tadmitted\tquarantine ended, %s before its time; max lease %v\n", a.name, left(a.was), line.nodes[i].MaxLease())
		default:
			fmt.Fprintf(table, "%s\tadmitted\twas not in quarantine; max lease %v\n", a.name, line.nodes[i].MaxLease())
		}
	}
	table.Flush()
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return code
}

func admitOne(ctx context.Context, n *node.Node) admission {
	report, err := n.Check(ctx)
	if err == nil {
		err = n.Admit(ctx) // it refuses what Lock would refuse, but for another max lease, which it changes
	}
	return admission{name: n.Name(), was: report.Quarantine, err: err}
}
