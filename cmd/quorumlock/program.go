package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"
)

// program is where a command line comes from. Commands print there, and leave their exit code.
type program struct {
	stdout, stderr io.Writer
	code           int
	carrying       string // the command that is carried out; empty before
}

// command makes a command. Its flags come before its arguments, which do gets. A command line that
// cannot be used is one line on stderr, and the exit code misuse.
func (p *program) command(name, usage, arguments string, flags *lineFlags, misuse int,
	do func(ctx context.Context, args []string) int) *cli.Command {
	words, one := strings.Fields(name), 1
	wrong := func(err error) {
		p.carrying = name
		p.misused(fmt.Sprintf("%s: %v", name, err))
		p.code = misuse
	}
	return &cli.Command{
		Name: words[len(words)-1], Usage: usage, Description: examples[name], ArgsUsage: arguments, Flags: flags.all,
		StopOnNthArg: &one, HideHelpCommand: true, // help may be the name of a lock
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			wrong(flags.explain(err))
			return nil
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			p.carrying = name
			args := cmd.Args().Slice()
			if len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" && !looksLikeFlag(args[0]) {
				wrong(errors.New("unknown flag"))
				return nil
			}
			p.code = do(ctx, args)
			return nil
		},
	}
}

// misused prints what is wrong with the command line in one line.
func (p *program) misused(wrong string) {
	help := "help"
	if p.carrying != "" {
		help = p.carrying + " -h"
	}
	fmt.Fprintf(p.stderr, "quorumlock: %s (see quorumlock %s)\n", wrong, help)
	p.code = exitUsage
}
