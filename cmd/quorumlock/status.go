package main

import (
	"bytes"
	"context"

	"github.com/quorumlock/quorumlock/node"
	"github.com/urfave/cli/v3"
)

// statusCommand makes the command that prints which processes hold locks. The exit code is that of
// the worst lock: unknown, then free, then held.
func (p *program) statusCommand() *cli.Command {
	return p.lockCommand("status",
		"show which processes hold the named locks, on which masters, and for how long at most; writes nothing",
		func(flags *lineFlags, line *lockLine) {
			slotsFlag(flags, "show the `N` slots of each semaphore NAME", &line.slots)
			flags.boolean("json", "print JSON", &line.json)
			flags.boolean("q", "print nothing", &line.quiet)
			flags.boolean("watch", "draw it again every second, on a terminal", &line.watch)
		}, p.status)
}

func (p *program) status(ctx context.Context, line *lockLine, nodes []*node.Node) (int, error) {
	code := exitOK
	show := func(ctx context.Context) ([]byte, error) {
		locks, text := inspect(ctx, nodes, line.all, line.names), bytes.Buffer{}
		code = exitOK
		for _, lock := range locks {
			code = max(code, lock.code(quorumSize(len(nodes), line.all)))
		}
		var err error
		switch {
		case line.json:
			err = printLocksJSON(&text, locks)
		case !line.quiet:
			printLocks(&text, locks)
		}
		return text.Bytes(), err
	}
	if line.watch {
		return code, watch(ctx, p.stdout, watchInterval, true, show)
	}
	text, err := show(ctx)
	if err == nil && ctx.Err() == nil {
		_, err = p.stdout.Write(text)
	}
	return code, err
}
