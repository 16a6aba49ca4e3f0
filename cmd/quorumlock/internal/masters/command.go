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
				line, list, wrong, err := c.take(access, p.Command, args)
				if wrong != "" {
					return p.Misused(wrong)
				}
				if err == nil {
					line.Nodes, line.urls, err = access.open(list)
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

// take reads the arguments and returns the list of URLs, or what is wrong with the command line. The error
// is about a file.
func (c Command) take(access *Access, name string, args []string) (line Line, list []string, wrong string, err error) {
	list = args
	if c.NamesMember {
		if len(args) == 0 || strings.Contains(args[0], "://") || len(args) == 1 && access.file == "" {
			return line, nil, name + " needs the name of the member (host:port or ?name=, not a URL: see members show), and then " +
				"the URLs of the present list, or -urls-file", nil
		}
		line.Member, list = args[0], args[1:]
	}
	switch {
	case access.file != "" && len(list) > 0:
		wrong = name + " takes URLs as arguments or from -urls-file, not from both"
	case access.file != "" || len(list) == 0 && c.Reads && os.Getenv(URLsVariable) != "":
		list, err = readURLs(access.file)
	case len(list) == 0 && c.Reads:
		wrong = name + " needs the URL of at least one master: as an argument, by -urls-file, or in " + URLsVariable
	case len(list) == 0:
		wrong = name + " needs the URL of at least one master: as an argument, or by -urls-file; it does not read " +
			URLsVariable
	}
	return line, list, wrong, err
}
