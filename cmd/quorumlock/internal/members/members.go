// Package members is the command that shows and changes the list of masters of a deployment: a change is
// announced, and committed once all clients have the new list. What to do in which order, package change
// decides; this one does it, and reports.
package members

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/hosts"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

type deployment struct {
	given    []*node.Node
	names    []string              // of these
	nodes    map[string]*node.Node // by name
	maxLease time.Duration
	member   string // to remove
}

// Command shows and changes the list of masters.
var Command = cli.Command{
	Name: "members", Usage: "show and change the list of masters",
	Below: []cli.Command{show.Row(), add.Row(), remove.Row(), commit.Row(), abort.Row()},
}

const exitCodes = `Exit codes: 0 if it is done, 1 if not (the message says what to do), 2 if the command line is invalid.`

var show = masters.Command{
	Name: "show", Usage: "show each master's list of masters, and any change that is under way", Arguments: "URL...",
	Help: `Example:
  quorumlock members show redis://a redis://b redis://c

` + exitCodes,
	Reads:    true,
	Unsealed: true,
	Define:   func(*cli.Flags) masters.Action { return over(deployment.show) },
}

var add = masters.Command{
	Name: "add", Usage: "announce one more master: clients with it are then accepted too; the URLs are the present list",
	Arguments: "NEW-URL URL...",
	Help: `Example, for a list that is a, b and c:
  quorumlock members add redis://d redis://a redis://b redis://c

` + exitCodes,
	Define: func(flags *cli.Flags) masters.Action {
		wait := waitFlag(flags)
		return over(func(d deployment, ctx context.Context, out io.Writer) error {
			if len(d.names) < 2 {
				return errors.New("add needs the URL of the new master, and then the URLs of the present list")
			}
			added, given := d.names[0], d.list()
			if err := hosts.Mixed(d.given); err != nil {
				return err
			}
			if err := d.addsVote(ctx, added, given); err != nil {
				return err
			}
			return d.announce(ctx, change.Without(given, added), given, *wait, out)
		})
	},
}

var remove = masters.Command{
	Name: "remove", Usage: "announce one master less: clients without it are then accepted too; the URLs are the present list",
	Arguments: "NAME URL...",
	Help: `Example, for a list that is a, b, c and d:
  quorumlock members remove d:6379 redis://a redis://b redis://c redis://d

` + exitCodes,
	NamesMember: true,
	Define: func(flags *cli.Flags) masters.Action {
		wait := waitFlag(flags)
		return over(func(d deployment, ctx context.Context, out io.Writer) error {
			given := d.list()
			if !given.Has(d.member) {
				return fmt.Errorf("%s has no member of that name%s; give the present list", given, cli.Repeat(d.member))
			}
			return d.announce(ctx, given, change.Without(given, d.member), *wait, out)
		})
	},
}

var commit = masters.Command{
	Name: "commit", Usage: "accept only clients with the announced list; the URLs are that list, and the removed master if it runs",
	Arguments: "URL...",
	Help: `Example, once all clients use the list a, b, c and d:
  quorumlock members commit redis://a redis://b redis://c redis://d

It refuses if a locker with another list has locked lately, and names it. It does not know of lockers that have not, nor
of jobs that have ended.

` + exitCodes,
	Define: func(flags *cli.Flags) masters.Action {
		yes := false
		flags.Boolean("yes", "commit even if lockers use, or may use, another list: without it, such a locker prevents the commit for "+
			"one max lease and 15 s after it locked", &yes)
		return over(func(d deployment, ctx context.Context, out io.Writer) error {
			return d.commit(ctx, yes, out)
		})
	},
}

var abort = masters.Command{
	Name: "abort", Usage: "take back what add or remove announced; the URLs are all masters of both lists", Arguments: "URL...",
	Help: `Example, with the masters of both lists:
  quorumlock members abort redis://a redis://b redis://c redis://d

` + exitCodes,
	Define: func(*cli.Flags) masters.Action { return over(deployment.abort) },
}

func waitFlag(flags *cli.Flags) *time.Duration {
	wait := time.Duration(0)
	flags.Duration("wait", "if the last change is less than one max lease ago, wait for up to `D`; refuse at once if that is too short",
		time.Millisecond, &wait)
	return &wait
}

// over returns what carries out a step on the masters that were given.
func over(step func(deployment, context.Context, io.Writer) error) masters.Action {
	return func(ctx context.Context, p *cli.Program, line masters.Line) int {
		given, err := newDeployment(line)
		if err == nil {
			err = step(given, ctx, p.Stdout)
		}
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(p.Stderr, "quorumlock: interrupted: run the same command again to continue")
			return cli.ExitInterrupted
		case err != nil:
			fmt.Fprintf(p.Stderr, "quorumlock: members: %v\n", err)
			return cli.ExitFailed
		}
		return cli.ExitOK
	}
}

func newDeployment(line masters.Line) (deployment, error) {
	d := deployment{given: line.Nodes, nodes: map[string]*node.Node{}, maxLease: line.Nodes[0].MaxLease(),
		member: scripts.Canonical(line.Member)}
	for _, n := range line.Nodes {
		if d.nodes[n.Name()] != nil {
			return d, fmt.Errorf("two URLs have the name %s", n.Name())
		}
		d.nodes[n.Name()] = n
		d.names = append(d.names, n.Name())
	}
	return d, nil
}

func (d deployment) list() *scripts.List { return scripts.NewList(d.names...) }

// announce accepts clients with the list to as well as clients with the list from. It refuses if the masters take the
// next change only later than wait.
func (d deployment) announce(ctx context.Context, from, to *scripts.List, wait time.Duration, out io.Writer) error {
	by, err := change.New(from, to)
	if err != nil {
		return err
	}
	by.Waits = wait
	if _, _, err := d.carryOut(ctx, by.Announce(), out); err != nil {
		return err
	}
	all, removed := to, ""
	if to.Len() < from.Len() {
		all, removed = from, " If the removed master runs, give its URL too: commit then retires it."
	}
	fmt.Fprintf(out, "Announced: clients with %s are accepted as well as clients with %s.\n"+
		"Now deploy all clients with %[1]s, then: quorumlock members commit with the URLs of %[1]s.%[3]s\n"+
		"To go back: quorumlock members abort with the URLs of %[4]s.\n", to, from, removed, all)
	return nil
}

// commit makes the announced members the members. With yes it does not ask whether all lockers have the list.
func (d deployment) commit(ctx context.Context, yes bool, out io.Writer) error {
	given := d.list()
	if !yes {
		views, _ := d.look(ctx)
		if to := change.Pending(given, views); to != nil {
			if err := d.isEveryClientMoved(ctx, to, out); err != nil {
				return err
			}
		}
	}
	report, errs, err := d.carryOut(ctx, change.Commit(given), out)
	if err != nil {
		return err
	}
	if len(report.Changed) == 0 {
		fmt.Fprintf(out, "Nothing to commit: the members are %s already.\n", report.To)
		if !given.Equal(report.To) {
			fmt.Fprintf(out, "No change to %s is announced.\n", given)
		}
	} else {
		fmt.Fprintf(out, "The members are %s. Clients with another list are refused from now on.\n"+
			"The next change of members is refused for one max lease, %v.\n", report.To, d.maxLease)
	}
	if blank := report.Blank; len(blank) > 0 {
		fmt.Fprintf(out, "Not done on %s: blank, until a client marks %s.\n", strings.Join(blank, ", "), plural(blank, "it", "them"))
	}
	if name := report.Unretired; name != "" {
		fmt.Fprintf(out, "%s was not retired: it was not given, does not answer, or has another list. Stop it for good, or "+
			"repeat the command with its URL too while it runs. If a wiped master goes "+
			"on under an old name, clients with an old list may found a deployment on it.\n", name)
	}
	if away := report.NoAnswer; len(away) > 0 {
		return explain(fmt.Errorf("not done on %s: no reply. Repeat the command when %s", strings.Join(away, ", "),
			plural(away, "it runs", "they run")), errs)
	}
	return nil
}

func plural(names []string, one, many string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

func (d deployment) abort(ctx context.Context, out io.Writer) error {
	report, errs, err := d.carryOut(ctx, change.Abort(d.list()), out)
	if err != nil {
		return err
	}
	if len(report.Changed) == 0 {
		fmt.Fprintln(out, "Nothing to abort: no change is under way on the masters that answered.")
	} else {
		fmt.Fprintf(out, "The change from %s to %s is taken back on %s.\n"+
			"The next change of members is refused for one max lease, %v.\n",
			report.From, report.To, strings.Join(report.Changed, ", "), d.maxLease)
	}
	if len(report.NoAnswer) > 0 {
		them := plural(report.NoAnswer, "it", "them")
		return explain(fmt.Errorf("a change may still be announced on %s: no reply, or not given. Repeat the command with %s. Until "+
			"then the next change cannot include %s", strings.Join(report.NoAnswer, ", "), them, them), errs)
	}
	return nil
}
