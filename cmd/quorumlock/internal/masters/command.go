package masters

import (
	"context"
	"fmt"
	"os"
	"strings"

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

// wrong says what is wrong with the arguments, next to that file of URLs; nothing if they can be used.
func (c Command) wrong(file string, args []string) string {
	if c.NamesMember {
		if len(args) == 0 || strings.Contains(args[0], "://") || len(args) == 1 && file == "" {
			return "needs the name of the member (host:port or ?name=, not a URL: see members show), and then " +
				"the URLs of the present list, or -urls-file"
		}
		args = args[1:]
	}
	const needsURL = "needs the URL of at least one master: as an argument, "
	switch {
	case file != "" && len(args) > 0:
		return "takes URLs as arguments or from -urls-file, not from both"
	case file != "" || len(args) > 0 || c.Reads && os.Getenv(URLsVariable) != "":
		return ""
	case c.Reads:
		return needsURL + "by -urls-file, or in " + URLsVariable
	}
	return needsURL + "or by -urls-file; it does not read " + URLsVariable
}
