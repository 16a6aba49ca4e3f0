package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/urfave/cli/v3"
)

// maxRounds bounds how often a command is tried while the masters change under it.
const maxRounds = 20

// masters are the nodes that a members command was given, by name.
type masters struct {
	nodes map[string]*node.Node
	names []string // in the order of the command line
}

func (p *program) membersCommand() *cli.Command {
	sub := func(name, usage, arguments string) *cli.Command {
		return p.masterCommand("members "+name, usage, arguments, nil, func(ctx context.Context, line commandLine) int {
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
		Name: "members", Usage: "show and change the list of masters that the masters let in", HideHelpCommand: true,
		Commands: []*cli.Command{
			sub("show", "the list of masters that each master has, and where a change of it stands", "URL..."),
			sub("add", "let in clients with one master more, beside those with the present list, which the URLs are",
				"NEW-URL URL..."),
			sub("remove", "let in clients without one master, beside those with the present list, which the URLs are",
				"NAME URL..."),
			sub("commit", "make the list that the URLs are the only one that is let in", "URL..."),
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
		err = all.announce(ctx, given.Without(all.names[0]), given, stdout)
	case "remove":
		if !given.Has(line.name) {
			err = fmt.Errorf("%s is no member of %s: give the present list", line.name, given)
		} else {
			err = all.announce(ctx, given, given.Without(line.name), stdout)
		}
	case "commit":
		err = all.commit(ctx, given, stdout)
	case "abort":
		err = all.abort(ctx, stdout)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "quorumlock: interrupted: the same command goes on where it stopped")
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

// look returns what the masters say of themselves, and why those that have no view did not answer.
func (m masters) look(ctx context.Context) (views map[string]*membership.View, errs map[string]error) {
	views, errs = map[string]*membership.View{}, map[string]error{}
	nodes := slices.Collect(maps.Values(m.nodes))
	for i, r := range each(ctx, nodes, func(ctx context.Context, n *node.Node) answer {
		return call(ctx, n, scripts.Look())
	}) {
		if name := nodes[i].Name(); r.err != nil {
			errs[name] = r.err
		} else {
			views[name] = membership.Read(*r.reply.Look)
		}
	}
	return views, errs
}

// answer is a master's reply to a look or a mark.
type answer struct {
	reply scripts.Reply
	err   error
}

func call(ctx context.Context, n *node.Node, script scripts.Call) answer {
	r := n.Pipe("").Do(ctx, script)
	return answer{r.Reply, r.Err}
}

// write writes marks, all at once.
func (m masters) write(ctx context.Context, marks map[string]scripts.Call) error {
	names := slices.Sorted(maps.Keys(marks))
	nodes := make([]*node.Node, len(names))
	for i, name := range names {
		nodes[i] = m.nodes[name]
	}
	for i, r := range each(ctx, nodes, func(ctx context.Context, n *node.Node) answer {
		return call(ctx, n, marks[n.Name()])
	}) {
		if r.err != nil {
			return fmt.Errorf("%s: %s (the same command goes on where it stopped)", names[i], reason(r.err))
		}
	}
	return nil
}

// explain adds to a refusal why a master did not answer. Another max lease is the whole reason:
// such a master is not dead.
func explain(err error, errs map[string]error) error {
	names := slices.Sorted(maps.Keys(errs))
	for _, name := range names {
		if errors.Is(errs[name], node.ErrMaxLease) {
			return fmt.Errorf("%s: %s: give the deployment's with -max-lease", name, reason(errs[name]))
		}
	}
	for _, name := range names {
		err = fmt.Errorf("%w\n  %s: %s", err, name, reason(errs[name]))
	}
	return err
}

// announce lets in clients with the list to beside those with the list from.
func (m masters) announce(ctx context.Context, from, to *scripts.List, out io.Writer) error {
	change, err := membership.NewChange(from, to)
	if err != nil {
		return err
	}
	told := false
	for range maxRounds {
		views, errs := m.look(ctx)
		marks, wait, err := change.Announce(views)
		switch {
		case err != nil:
			return explain(err, errs)
		case wait > 0:
			if !told {
				fmt.Fprintf(out, "The new member waits in quarantine for %v. Interrupt at will: the same command goes on.\n",
					wait.Round(100*time.Millisecond))
				told = true
			}
			if !sleep(ctx, wait) {
				return ctx.Err()
			}
		case len(marks) == 0:
			fmt.Fprintf(out, "Announced: clients with %s are let in beside those with %s.\n"+
				"Now deploy all clients with %s, then: quorumlock members commit with that list.\n"+
				"To go back: quorumlock members abort.\n", to, from, to)
			return nil
		default:
			if err := m.write(ctx, marks); err != nil {
				return err
			}
		}
	}
	return errChanging
}

var errChanging = errors.New("the masters change meanwhile: is another members command running?")

// commit makes the announced members the members.
func (m masters) commit(ctx context.Context, to *scripts.List, out io.Writer) error {
	for range maxRounds {
		views, errs := m.look(ctx)
		marks, err := membership.Commit(to, views)
		switch {
		case err != nil:
			return explain(err, errs)
		case len(marks) == 0:
			maxLease := m.nodes[m.names[0]].MaxLease()
			fmt.Fprintf(out, "The members are %s. Clients with another list are refused from now on.\n"+
				"The next change of members is refused for one max lease, %v.\n", to, maxLease)
			return nil
		}
		if err := m.write(ctx, marks); err != nil {
			return err
		}
	}
	return errChanging
}

// abort takes back an announced change.
func (m masters) abort(ctx context.Context, out io.Writer) error {
	for range maxRounds {
		views, errs := m.look(ctx)
		marks, err := membership.Abort(views)
		switch {
		case err != nil:
			return explain(err, errs)
		case len(marks) == 0 && len(errs) > 0:
			return explain(errors.New("not all masters answered: on those that did, no change is under way"), errs)
		case len(marks) == 0:
			fmt.Fprintln(out, "No change is under way on these masters. "+
				"Clients with a list that was announced are refused from now on.")
			return nil
		}
		if err := m.write(ctx, marks); err != nil {
			return err
		}
	}
	return errChanging
}
