package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// status prints who holds locks. The exit code is that of the worst: unknown, then free, then held.
func status(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return withMasters(ctx, "status", args, stdout, stderr,
		func(ctx context.Context, line *lockLine, nodes []*node.Node) (int, error) {
			locks := inspect(ctx, nodes, line.all, line.names)
			if ctx.Err() != nil {
				return exitInterrupted, nil
			}
			var err error
			switch {
			case line.json:
				err = printLocksJSON(stdout, locks)
			case !line.quiet:
				printLocks(stdout, locks)
			}
			code := exitOK
			for _, lock := range locks {
				code = max(code, map[string]int{lockHeld: exitOK, lockFree: exitFailed, lockUnknown: exitUnavailable}[lock.state])
			}
			return code, err
		})
}

func printLocks(out io.Writer, locks []lockState) {
	for i, lock := range locks {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, lock)
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, m := range lock.masters {
			fmt.Fprintf(table, "  %s\t%s\n", m.name, m.says())
		}
		table.Flush()
	}
}

// String returns one line: who holds the lock.
func (l lockState) String() string {
	switch l.state {
	case lockHeld:
		return fmt.Sprintf("%q is held by %q, level %d, token at most %d, %s",
			l.name, l.owner, l.level, l.token, lasts(l.ttl))
	case lockFree:
		return fmt.Sprintf("%q is free, last token at most %d", l.name, l.token)
	}
	return fmt.Sprintf("%q: unknown, too few masters answered or are out of quarantine", l.name)
}

func (m masterState) says() string {
	text := "free"
	switch {
	case m.err != nil:
		return "NO VOTE: " + reason(m.err)
	case m.owner != "":
		text = fmt.Sprintf("held by %q, level %d, %s", m.owner, m.level, lasts(m.ttl))
	}
	text += fmt.Sprintf(", token counter %d", m.token)
	if m.quarantine > 0 {
		text += fmt.Sprintf(", in quarantine for another %s", left(m.quarantine))
	}
	return text
}

func lasts(ttl time.Duration) string {
	if ttl == forever {
		return "without an end"
	}
	return fmt.Sprintf("for %.1fs at most unless renewed", ttl.Seconds())
}

// lockJSON is a lock as status -json prints it. Times are in milliseconds; −1 is for ever. Token is
// the highest token counter: other names share it, so the lock's token is no higher.
type lockJSON struct {
	Name    string       `json:"name"`
	State   string       `json:"state"`
	Owner   string       `json:"owner,omitempty"`
	Level   int          `json:"level,omitempty"`
	Token   uint64       `json:"token"`
	TTL     int64        `json:"ttl_ms"`
	Masters []masterJSON `json:"masters"`
}

type masterJSON struct {
	Name       string `json:"name"`
	Error      string `json:"error,omitempty"`
	Owner      string `json:"owner,omitempty"`
	Level      int    `json:"level,omitempty"`
	Token      uint64 `json:"token"`
	TTL        int64  `json:"ttl_ms"`
	Quarantine int64  `json:"quarantine_ms"`
}

func printLocksJSON(out io.Writer, locks []lockState) error {
	all := make([]lockJSON, len(locks))
	for i, l := range locks {
		all[i] = lockJSON{l.name, l.state, l.owner, l.level, l.token, milliseconds(l.ttl), []masterJSON{}}
		for _, m := range l.masters {
			why := ""
			if m.err != nil {
				why = reason(m.err)
			}
			all[i].Masters = append(all[i].Masters, masterJSON{m.name, why, m.owner, m.level, m.token,
				milliseconds(m.ttl), milliseconds(m.quarantine)})
		}
	}
	return printJSON(out, all)
}

func milliseconds(d time.Duration) int64 {
	if d == forever {
		return -1
	}
	return d.Milliseconds()
}
