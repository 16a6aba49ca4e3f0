package locks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// status prints which processes hold locks. The worst lock decides on the exit code: unknown, then free, then held.
var status = over(cli.Command{
	Name: "status", Arguments: "NAME...",
	Usage: "show which processes hold the named locks, on which masters, and for how long at most; writes nothing",
	Help: `Example:
  QUORUMLOCK_URLS="redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3" quorumlock status nightly-report

Exit codes: 0 if all locks are held, 1 if one is free, 69 if one is unknown. 64 if the command line is invalid, 77 if
the masters refuse the credentials, 78 if the URLs or the masters cannot be used.`,
}, func(flags *cli.Flags, l *line) action {
	flags.Number("slots", "show the `N` slots of each semaphore NAME", "a number", 1, scripts.MaxSlots, &l.slots)
	flags.Boolean("json", "print JSON", &l.json)
	flags.Boolean("q", "print nothing", &l.quiet)
	flags.Boolean("watch", "draw it again every second, on a terminal", &l.watch)
	l.check = func() error {
		switch {
		case l.json && l.quiet:
			return errors.New("-json and -q exclude each other")
		case l.watch && (l.json || l.quiet):
			return errors.New("-watch cannot be used with -json or -q")
		}
		return nil
	}
	return l.showStatus
})

func (l *line) showStatus(ctx context.Context, p *cli.Program, nodes []*node.Node) (int, error) {
	code := cli.ExitOK
	show := func(ctx context.Context, isLive bool) ([]byte, error) {
		locks, found := inspect(ctx, nodes, l.all, isLive, l.names)
		if ctx.Err() != nil {
			return nil, nil
		}
		code = cli.ExitOK
		for _, lock := range locks {
			code = max(code, lock.code(nodes))
		}
		var text bytes.Buffer
		switch {
		case l.json:
			err := printLocksJSON(&text, locks)
			return text.Bytes(), err
		case l.quiet:
			return nil, nil
		}
		printLocks(&text, locks)
		printOutlook(&text, found, masters.Quorum(len(nodes), l.all))
		if l.slots == 0 {
			hintAtSlots(ctx, &text, nodes, locks)
		}
		if isLive {
			return text.Bytes(), nil
		}
		width, _ := cli.TerminalSize(p.Stdout)
		return wrapped(text.Bytes(), cmp.Or(width, widest)), nil
	}
	if l.watch {
		return code, watch(ctx, p.Stdout, time.Second, true, show)
	}
	text, err := show(ctx, false)
	if ctx.Err() == nil {
		p.Stdout.Write(text)
	}
	return code, err
}

// hintAtSlots says which free locks have the name of a semaphore with slots that are taken.
func hintAtSlots(ctx context.Context, out io.Writer, nodes []*node.Node, locks []lockState) {
	for _, lock := range locks {
		if lock.State != lockstate.Free {
			continue
		}
		free := masters.Each(ctx, nodes, func(ctx context.Context, _ int, n *node.Node) int {
			if result := inside.Of(n).Pipe("").Do(ctx, semaphores.Slots(lock.Name, scripts.MaxSlots)); result.Err == nil {
				return len(result.Reply.Other.(semaphores.Hint).Free)
			}
			return scripts.MaxSlots
		})
		if taken := scripts.MaxSlots - slices.Min(free); taken > 0 {
			fmt.Fprintf(out, "%q is also a semaphore, %d of its slots taken: -slots N shows them\n", lock.Name, taken)
		}
	}
}
