package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/urfave/cli/v3"
)

// masters are the nodes that a members command was given, by name.
type masters struct {
	nodes map[string]*node.Node
	names []string // in the order of the command line
}

func (p *program) membersCommand() *cli.Command {
	sub := func(name, usage, arguments string) *cli.Command {
		return p.masterCommand("members "+name, usage, arguments, membersFlags[name], func(ctx context.Context, line commandLine) int {
			return members(ctx, name, line, p.stdout, p.stderr)
		})
	}
	wrong := func(given string) {
		said := "members needs one of show, add, remove, commit, abort"
		if text := named(given); text != "" {
			said += ", not" + text[1:]
		}
		p.misused(said)
	}
	return &cli.Command{
		Name: "members", Usage: "show and change the list of masters", HideHelpCommand: true,
		Commands: []*cli.Command{
			sub("show", "show each master's list of masters, and any change that is under way", "URL..."),
			sub("add", "announce one more master: clients with it are then accepted too; the URLs are the present list",
				"NEW-URL URL..."),
			sub("remove", "announce one master less: clients without it are then accepted too; the URLs are the present list",
				"NAME URL..."),
			sub("commit", "accept only clients with the announced list; the URLs are that list, and the removed master if it runs",
				"URL..."),
			sub("abort", "take back what add or remove announced; the URLs are all masters of both lists", "URL..."),
		},
		OnUsageError: func(context.Context, *cli.Command, error, bool) error {
			wrong("")
			return nil
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			wrong(cmd.Args().First())
			return nil
		},
	}
}

// membersFlags are the flags of some of the steps.
var membersFlags = map[string]func(*lineFlags, *commandLine){
	"add":    waitFlag,
	"remove": waitFlag,
	"commit": func(flags *lineFlags, line *commandLine) {
		flags.boolean("yes", "commit even if lockers use, or may use, another list: without it, such a locker prevents the commit for "+
			"one max lease and 15 s after it locked", &line.yes)
	},
}

func waitFlag(flags *lineFlags, line *commandLine) {
	flags.boolean("wait", "if the last change is less than one max lease ago, wait, not fail", &line.waitOut)
}

// members shows and changes the list of masters.
func members(ctx context.Context, command string, line commandLine, stdout, stderr io.Writer) int {
	all := masters{nodes: map[string]*node.Node{}}
	for _, n := range line.nodes {
		if all.nodes[n.Name()] != nil {
			return failed(stderr, fmt.Errorf("two URLs have the name %s", n.Name()))
		}
		all.nodes[n.Name()] = n
		all.names = append(all.names, n.Name())
	}

	var err error
	switch given := scripts.NewList(all.names...); command {
	case "show":
		err = all.show(ctx, stdout)
	case "add":
		if err = all.addsVote(ctx, all.names[0], given); err == nil {
			err = all.announce(ctx, given.Without(all.names[0]), given, line.waitOut, stdout)
		}
	case "remove":
		if !given.Has(line.name) {
			err = fmt.Errorf("%s is no member of %s: give the present list", line.name, given)
		} else {
			err = all.announce(ctx, given, given.Without(line.name), line.waitOut, stdout)
		}
	case "commit":
		err = all.commit(ctx, given, line.yes, stdout)
	case "abort":
		err = all.abort(ctx, given, stdout)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "quorumlock: interrupted: run the same command again to continue")
		return exitInterrupted
	case err != nil:
		return failed(stderr, err)
	}
	return exitOK
}

func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "quorumlock: members: %v\n", err)
	return exitFailed
}

// announce accepts clients with the list to beside those with the list from. With wait it waits
// until the masters take the next change, instead of refusing.
func (m masters) announce(ctx context.Context, from, to *scripts.List, wait bool, out io.Writer) error {
	by, err := change.New(from, to)
	if err != nil {
		return err
	}
	by.Waits = wait
	if _, _, err := m.carryOut(ctx, by.Announce(), out); err != nil {
		return err
	}
	removed := ""
	if to.Len() < from.Len() {
		removed = " If the removed master runs, give its URL too: commit then retires it."
	}
	fmt.Fprintf(out, "Announced: clients with %s are accepted beside those with %s.\n"+
		"Now deploy all clients with %[1]s, then: quorumlock members commit with the URLs of %[1]s.%[3]s\n"+
		"To go back: quorumlock members abort with the URLs of %[4]s.\n", to, from, removed, longer(from, to))
	return nil
}

// commit makes the announced members the members. With yes it does not ask whether all lockers have
// the list.
func (m masters) commit(ctx context.Context, given *scripts.List, yes bool, out io.Writer) error {
	if !yes {
		views, _ := m.look(ctx)
		if to := change.Pending(given, views); to != nil {
			if err := m.isEveryClientMoved(ctx, to, out); err != nil {
				return err
			}
		}
	}
	report, errs, err := m.carryOut(ctx, change.Commit(given), out)
	if err != nil {
		return err
	}
	if len(report.Changed) == 0 {
		fmt.Fprintf(out, "Nothing to commit: the members are %s already.\n", report.To)
	} else {
		fmt.Fprintf(out, "The members are %s. Clients with another list are refused from now on.\n"+
			"The next change of members is refused for one max lease, %v.\n", report.To, m.nodes[m.names[0]].MaxLease())
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

// longer returns the list that has all masters of a change.
func longer(from, to *scripts.List) *scripts.List {
	if to.Len() > from.Len() {
		return to
	}
	return from
}

func plural(names []string, one, many string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

// abort takes back an announced change.
func (m masters) abort(ctx context.Context, given *scripts.List, out io.Writer) error {
	report, errs, err := m.carryOut(ctx, change.Abort(given), out)
	if err != nil {
		return err
	}
	if len(report.Changed) == 0 {
		fmt.Fprintln(out, "Nothing to abort: no change is under way on the masters that answered.")
	} else {
		fmt.Fprintf(out, "The change from %s to %s is taken back on %s.\n"+
			"The next change of members is refused for one max lease, %v.\n",
			report.From, report.To, strings.Join(report.Changed, ", "), m.nodes[m.names[0]].MaxLease())
	}
	if len(report.NoAnswer) > 0 {
		them := plural(report.NoAnswer, "it", "them")
		return explain(fmt.Errorf("a change may still be announced on %s: no reply, or not given. Repeat the command with %s. Until "+
			"then the next change cannot include %s", strings.Join(report.NoAnswer, ", "), them, them), errs)
	}
	return nil
}
