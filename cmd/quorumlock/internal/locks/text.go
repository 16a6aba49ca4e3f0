package locks

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/quorate"
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
				fmt.Fprintf(table, "  %s\t%s\n", m.Node, says(m, lock.found[i]))
			}
		}
		table.Flush()
		for _, g := range groupErrors(lock.errs()) {
			fmt.Fprintf(table, "  %s\tNO VOTE: %s\n", g, g.Reason)
		}
		table.Flush()
	}
}

func printErrors(out io.Writer, errs []error) {
	for _, g := range groupErrors(errs) {
		fmt.Fprintf(out, "  %s: %s\n", g, g.Reason)
	}
}

// printOutlook says why masters grant nothing new, and whether enough do.
func printOutlook(out io.Writer, found []masters.Finding, quorum quorate.Rule) {
	if outlook := masters.Outlook(found, quorum); outlook != "" {
		fmt.Fprintln(out, outlook)
	}
	var refusals []error
	for _, f := range found {
		if f.NoVote == nil && f.Refusal() != nil { // a master without a vote has its line
			refusals = append(refusals, f.Refusal())
		}
	}
	for _, g := range groupErrors(refusals) {
		fmt.Fprintf(out, "  %s  GRANTS NOTHING: %s\n", g, g.Reason)
	}
}

// groupErrors groups nodes by their errors, which name them.
func groupErrors(errs []error) (groups plain.Grouped) {
	for _, err := range errs {
		name := ""
		if failed, ok := errors.AsType[*node.Error](err); ok {
			name = plain.Text(failed.Node)
		}
		groups.Add(name, masters.Reason(err))
	}
	return groups
}

// String returns one line: what holds the lock.
func (l lockState) String() string { return l.sentence("is") }

// shownName quotes the name of a lock, or of a semaphore, with the slot. The name is cut to the columns.
func shownName(name string, most int) string {
	shownSlot := ""
	if semaphore, slot, ok := scripts.ParseSlot(name); ok {
		name, shownSlot = semaphore, fmt.Sprintf(" slot %d", slot)
	}
	return cut(fmt.Sprintf("%q", name), most) + shownSlot
}

// sentence is String with the verb: "was" for a lock that was deleted.
func (l lockState) sentence(verb string) string {
	switch name := shownName(l.Name, math.MaxInt); {
	case l.State == lockstate.Held && l.Readers > 0:
		return fmt.Sprintf("%s %s held by %s %s%s%s", name, verb, plain.Count(l.Readers, "reader"), lasts(l.TTL), l.mostToken(", "), l.waits())
	case l.State == lockstate.Held:
		return fmt.Sprintf("%s %s held %s%s%s, depth %d%s, owner %q", name, verb, l.holder(), lasts(l.TTL),
			l.taken(time.Now()), l.Depth, l.mostToken(", "), l.Owner)
	case l.State == lockstate.Free:
		text := fmt.Sprintf("%s %s free%s", name, verb, l.mostToken(", last "))
		if strings.Contains(l.Name, ",") { // run takes NAME,NAME
			text += "; it is one name: give each of several as an argument of its own"
		}
		return text
	case verb == "was":
		return fmt.Sprintf("%s was in an unknown state, %s", name, l.whyUnknown())
	default:
		return fmt.Sprintf("%s: unknown, %s", name, l.whyUnknown())
	}
}

// mostToken says, after the word, what the token is at most; nothing if no client that counts tokens has held the lock.
func (l lockState) mostToken(after string) string {
	if l.Token == 0 {
		return ""
	}
	return fmt.Sprintf("%stoken at most %d", after, l.Token)
}

func (l lockState) waits() string {
	if l.WriterWaits {
		return ", a writer waits"
	}
	return ""
}

// whyUnknown says why the masters do not show the state: the number of masters of each kind.
func (l lockState) whyUnknown() string {
	silent, refusing, waiting, half, blank := 0, 0, 0, 0, 0
	for i, m := range l.Masters {
		var failed *node.Error
		switch {
		case errors.As(m.Err, &failed) && (redisconn.IsServerError(failed.Err) || failed.Permanent() ||
			errors.Is(failed.Err, node.ErrReplica) || errors.Is(failed.Err, redisconn.ErrNotReplicated)):
			refusing++
		case m.Err != nil:
			silent++
		case l.found[i].IsHalfMarked():
			half++
		case l.found[i].IsUnused():
			blank++
		case m.Quarantine > 0:
			waiting++
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{silent, "did not answer"}, {refusing, "refused"}, {waiting, "in quarantine"}, {half, "half-marked"}, {blank, "blank"}} {
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

func (l lockState) taken(now time.Time) string {
	if l.since.IsZero() {
		return ""
	}
	return fmt.Sprintf(", taken at least %v ago", now.Sub(l.since).Round(100*time.Millisecond))
}

// says is for a master without an error.
func says(m lockstate.Master, f masters.Finding) string {
	text := "free"
	switch {
	case m.MayHide():
		text = "free, unless it has forgotten a holder"
	case m.Owner != "":
		text = fmt.Sprintf("held %s, depth %d", lasts(m.TTL), m.Depth)
	case m.Readers > 0:
		text = "held by " + plain.Count(m.Readers, "reader") + " " + lasts(m.TTL)
	}
	text += fmt.Sprintf(", token counter %d", m.Token)
	if m.Reservation > 0 {
		text += fmt.Sprintf(", a writer keeps new readers back for %.1fs", m.Reservation.Seconds())
	}
	switch {
	case f.IsUnused():
		text += fmt.Sprintf(", in quarantine for %s from its first client on", masters.Left(m.Quarantine))
	case f.IsHalfMarked():
		text += ", half-marked: a client has to finish its mark"
	case m.Quarantine > 0:
		text += fmt.Sprintf(", in quarantine for another %s", masters.Left(m.Quarantine))
	}
	if m.Owner != "" {
		text += fmt.Sprintf(", owner %q", m.Owner)
	}
	return text
}

func lasts(ttl time.Duration) string {
	if ttl == lockstate.Forever {
		return "without expiry"
	}
	return fmt.Sprintf("for %.1fs at most unless renewed", ttl.Seconds())
}

// lockJSON is a lock as status -json prints it. Times are in milliseconds; −1 is for ever.
type lockJSON struct {
	Name   string           `json:"name"`
	Slot   *int             `json:"slot,omitempty"` // of the semaphore of that name
	State  string           `json:"state"`
	Owner  string           `json:"owner,omitempty"`
	Depth  int              `json:"depth,omitempty"`
	Token  uint64           `json:"token"`
	TTL    int64            `json:"ttl_ms"`
	Holder scripts.Identity `json:"holder,omitzero"` // the process, if it is known
	Since  time.Time        `json:"since,omitzero"`  // or earlier
	// Readers hold it in place of an owner. WriterWaits: new ones are kept back.
	Readers     int          `json:"readers,omitempty"`
	WriterWaits bool         `json:"writer_waits,omitempty"`
	Masters     []masterJSON `json:"masters"`
}

type masterJSON struct {
	Name        string `json:"name"`
	Error       string `json:"error,omitempty"`
	Owner       string `json:"owner,omitempty"`
	Depth       int    `json:"depth,omitempty"`
	Token       uint64 `json:"token"`
	TTL         int64  `json:"ttl_ms"`
	Quarantine  int64  `json:"quarantine_ms"`
	Readers     int    `json:"readers,omitempty"`
	Reservation int64  `json:"reservation_ms,omitempty"` // of a writer that waits
}

func printLocksJSON(out io.Writer, locks []lockState) error {
	all := make([]lockJSON, len(locks))
	for i, l := range locks {
		all[i] = lockJSON{l.Name, nil, l.State, l.Owner, l.Depth, l.Token, milliseconds(l.TTL), l.Identity, l.since,
			l.Readers, l.WriterWaits, []masterJSON{}}
		if semaphore, slot, ok := scripts.ParseSlot(l.Name); ok {
			all[i].Name, all[i].Slot = semaphore, &slot
		}
		for _, m := range l.Masters {
			why := ""
			if m.Err != nil {
				why = masters.Reason(m.Err)
			}
			all[i].Masters = append(all[i].Masters, masterJSON{m.Node, why, m.Owner, m.Depth, m.Token,
				milliseconds(m.TTL), milliseconds(m.Quarantine), m.Readers, milliseconds(m.Reservation)})
		}
	}
	return cli.PrintJSON(out, all)
}

func milliseconds(d time.Duration) int64 {
	if d == lockstate.Forever {
		return -1
	}
	return d.Milliseconds()
}
