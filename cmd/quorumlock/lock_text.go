package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

func printLocks(out io.Writer, locks []lockState) {
	for i, lock := range locks {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, lock)
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for i, m := range lock.Masters {
			if m.Err == nil {
				fmt.Fprintf(table, "  %s\t%s\n", m.Node, says(m, lock.unused[i]))
			}
		}
		table.Flush()
		for _, g := range groupErrors(lock.errs()) {
			fmt.Fprintf(table, "  %s\tNO VOTE: %s\n", g, g.Reason)
		}
		table.Flush()
	}
}

// groupErrors groups nodes by their errors, which name them.
func groupErrors(errs []error) (groups plain.Grouped) {
	for _, err := range errs {
		name, failed := "", (*node.Error)(nil)
		if errors.As(err, &failed) {
			name = plain.Text(failed.Node)
		}
		groups.Add(name, reason(err))
	}
	return groups
}

// String returns one line: what holds the lock.
func (l lockState) String() string { return l.sentence("is") }

// sentence is String with that verb: a lock that was deleted "was".
func (l lockState) sentence(verb string) string {
	switch l.State {
	case lockstate.Held:
		return fmt.Sprintf("%q %s held %s%s%s, level %d, token at most %d, owner %q", l.Name, verb, l.holder(), lasts(l.TTL),
			l.taken(time.Now()), l.Level, l.Token, l.Owner)
	case lockstate.Free:
		return fmt.Sprintf("%q %s free, last token at most %d", l.Name, verb, l.Token)
	}
	return fmt.Sprintf("%q: unknown, %s", l.Name, l.whyUnknown())
}

// whyUnknown says why the masters do not show the state: how many there are of each kind.
func (l lockState) whyUnknown() string {
	silent, refusing, waiting := 0, 0, 0
	for _, m := range l.Masters {
		var failed *node.Error
		switch {
		case errors.As(m.Err, &failed) && (redisconn.IsServerError(failed.Err) || failed.Permanent()):
			refusing++
		case m.Err != nil:
			silent++
		case m.Quarantine > 0:
			waiting++
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{silent, "did not answer"}, {refusing, "refused"}, {waiting, "in quarantine"}} {
		switch {
		case part.n == 0:
		case parts == nil:
			parts = append(parts, fmt.Sprintf("%d of %d masters %s", part.n, len(l.Masters), part.what))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// holder names the process, if it is known. The owner's id is long, and comes last.
func (l lockState) holder() string {
	if l.Identity == (scripts.Identity{}) {
		return ""
	}
	return fmt.Sprintf("by %v, ", quorum.Identity(l.Identity))
}

// taken says when the lock was taken; nothing if that is not known.
func (l lockState) taken(now time.Time) string {
	if l.since.IsZero() {
		return ""
	}
	return fmt.Sprintf(", taken at least %v ago", now.Sub(l.since).Round(100*time.Millisecond))
}

// says is for a master without an error; unused if its quarantine has not begun.
func says(m lockstate.Master, unused bool) string {
	text := "free"
	if m.Owner != "" {
		text = fmt.Sprintf("held %s, level %d", lasts(m.TTL), m.Level)
	}
	text += fmt.Sprintf(", token counter %d", m.Token)
	switch {
	case unused:
		text += fmt.Sprintf(", in quarantine for %s from its first client on", left(m.Quarantine))
	case m.Quarantine > 0:
		text += fmt.Sprintf(", in quarantine for another %s", left(m.Quarantine))
	}
	if m.Owner != "" {
		text += fmt.Sprintf(", owner %q", m.Owner)
	}
	return text
}

func lasts(ttl time.Duration) string {
	if ttl == lockstate.Forever {
		return "without an end"
	}
	return fmt.Sprintf("for %.1fs at most unless renewed", ttl.Seconds())
}

// lockJSON is a lock as status -json prints it. Times are in milliseconds; −1 is for ever.
type lockJSON struct {
	Name    string       `json:"name"`
	State   string       `json:"state"`
	Owner   string       `json:"owner,omitempty"`
	Level   int          `json:"level,omitempty"`
	Token   uint64       `json:"token"`
	TTL     int64        `json:"ttl_ms"`
	Holder  *holderJSON  `json:"holder,omitempty"` // the process, if it is known
	Since   *time.Time   `json:"since,omitempty"`  // or earlier
	Masters []masterJSON `json:"masters"`
}

type holderJSON struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program,omitempty"`
	Label   string `json:"label,omitempty"`
}

func holderOf(who scripts.Identity) *holderJSON {
	if who == (scripts.Identity{}) {
		return nil
	}
	return &holderJSON{who.Host, who.PID, who.Program, who.Label}
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
		all[i] = lockJSON{l.Name, l.State, l.Owner, l.Level, l.Token, milliseconds(l.TTL), holderOf(l.Identity), nil,
			[]masterJSON{}}
		if !l.since.IsZero() {
			all[i].Since = &l.since
		}
		for _, m := range l.Masters {
			why := ""
			if m.Err != nil {
				why = reason(m.Err)
			}
			all[i].Masters = append(all[i].Masters, masterJSON{m.Node, why, m.Owner, m.Level, m.Token,
				milliseconds(m.TTL), milliseconds(m.Quarantine)})
		}
	}
	return printJSON(out, all)
}

func milliseconds(d time.Duration) int64 {
	if d == lockstate.Forever {
		return -1
	}
	return d.Milliseconds()
}
