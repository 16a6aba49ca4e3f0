package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
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
			if line.slots == 0 {
				hintAtSlots(ctx, &text, nodes, locks)
			}
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

// hintAtSlots says which names of free locks are those of semaphores with slots that are taken.
func hintAtSlots(ctx context.Context, out io.Writer, nodes []*node.Node, locks []lockState) {
	for _, lock := range locks {
		if lock.State != lockstate.Free {
			continue
		}
		free := each(ctx, nodes, func(ctx context.Context, n *node.Node) int {
			result := inside.Of(n).Pipe("").Do(ctx, scripts.Slots(lock.Name, scripts.MaxSlots))
			if result.Err != nil {
				return scripts.MaxSlots
			}
			return len(result.Reply.Slots.Free)
		})
		if taken := scripts.MaxSlots - slices.Min(free); taken > 0 {
			fmt.Fprintf(out, "%q is also a semaphore, %d of its slots taken: -slots N shows them\n", lock.Name, taken)
		}
	}
}
