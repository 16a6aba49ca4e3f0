package masters

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/node"
)

// Command is a command over the masters whose URLs are its arguments, or in a file.
type Command struct {
	Name, Usage, Arguments, Help string
	// Reads: without URLs it takes them from the environment. A command that changes something does not.
	Reads bool
	// NamesMember: the first argument is the name of a member.
	NamesMember bool
	// Unsealed: it shows what masters say while replicas are missing, too.
	Unsealed bool
	Define   func(*cli.Flags) Action
}

// Action is a [cli.Action] on masters.
type Action func(ctx context.Context, p *cli.Program, line Line) int

// Line is the command line of a [Command], with an open node for each URL.
type Line struct {
	Nodes  []*node.Node
	Member string // if it names one

	urls []string // of the nodes
}

// Row returns the command's row of the table.
func (c Command) Row() cli.Command {
	return cli.Command{Name: c.Name, Usage: c.Usage, Arguments: c.Arguments, Help: c.Help,
		Define: func(flags *cli.Flags) cli.Action {
			do, access := c.Define(flags), &Access{argument: true, Unsealed: c.Unsealed}
			fileUsage := "read the URLs from `FILE`: arguments show passwords"
			if c.Reads {
				fileUsage += "; without either, from the variable " + URLsVariable
			}
			access.flags(flags, fileUsage, 0, 0)
			return func(ctx context.Context, p *cli.Program, args []string) int {
				if wrong := c.wrong(access.file, args); wrong != "" {
					return p.Misused(p.Command + " " + wrong)
				}
				line, err := Line{}, error(nil)
				if c.NamesMember {
					line.Member, args = args[0], args[1:]
				}
				if len(args) == 0 {
					line.Nodes, line.urls, err = access.Open()
				} else {
					line.Nodes, line.urls, err = access.open(args)
				}
				if err != nil {
					fmt.Fprintf(p.Stderr, "quorumlock: %s: %v\n", p.Command, err)
					return cli.ExitUsage
				}
				defer CloseBy(ctx, line.Nodes)
				return do(ctx, p, line)
			}
		}}
}
