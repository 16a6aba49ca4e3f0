package locks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

// longestName is how many columns a name takes in top at most.
const longestName = 64

var top = over(cli.Command{
	Name: "top", Usage: "show the masters and the busiest locks, live on a terminal until q and Enter, else once; writes nothing",
	Help: `Example:
  quorumlock top -every 5s -urls-file /etc/quorumlock/urls

WAITING counts connections that wait, CHANGES how often the holder changed since top began. LEFT is how long the lock
stays unless it is renewed. Lines that begin with ! need you; a terminal shows them in red.

Exit codes: 0, 69 if no master answers, 130 after Ctrl-C; 64 and 78 as for status.`,
}, func(flags *cli.Flags, l *line) action {
	every := 2 * time.Second
	flags.Duration("every", "look every `D` (2s)", 100*time.Millisecond, &every)
	return func(ctx context.Context, p *cli.Program, nodes []*node.Node) (int, error) {
		s := &survey{all: l.all, cursors: slices.Repeat([]string{"0"}, len(nodes)), known: map[string]*busy{}}
		return s.show(ctx, p.Stdout, nodes, every)
	}
})

func (s *survey) show(ctx context.Context, out io.Writer, nodes []*node.Node, every time.Duration) (int, error) {
	code, none := cli.ExitOK, error(nil)
	err := watch(ctx, out, every, false, func(ctx context.Context, isLive bool) ([]byte, error) {
		s.look(ctx, nodes, isLive)
		if ctx.Err() != nil {
			return nil, nil
		}
		code, none = cli.ExitOK, nil
		if !slices.ContainsFunc(s.found, func(f masters.Finding) bool { return f.Err == nil }) {
			code, none = cli.ExitUnavailable, errors.New("no master answers")
		}
		var text bytes.Buffer
		width, _ := cli.TerminalSize(out)
		s.print(&text, time.Now(), width)
		return text.Bytes(), nil
	})
	return code, cmp.Or(err, none)
}

// print prints the masters and the locks for a terminal of that width, 0 for none: first those that are not well. Their
// lines begin with notWell.
func (s *survey) print(out io.Writer, now time.Time, width int) {
	mark := map[bool]string{true: " ", false: notWell}
	found := slices.Clone(s.found)
	slices.SortStableFunc(found, func(a, b masters.Finding) int {
		return cmp.Compare(mark[b.IsOK()], mark[a.IsOK()])
	})
	toEnd := ""
	if typed, _ := cli.TerminalSize(os.Stdin); width > 0 && typed > 0 {
		toEnd = " (q and Enter ends it)"
	}
	fmt.Fprintf(out, "quorumlock top%s, %s; %s\n%s\n\n", toEnd, now.Format(time.TimeOnly), s.deployment(), s.totals())

	var states table
	states.row(" ", "MASTER", "STATE", "VERSION", "UP", "ROUND TRIP", "QUARANTINE")
	var reasons plain.Grouped
	for _, f := range found {
		if err := f.Refusal(); err != nil {
			reasons.Add(f.Name, masters.Reason(err))
		}
		if clock := f.Clock(); clock != "" {
			reasons.Add(f.Name, clock)
		}
		r := f.Report
		if f.Err != nil {
			states.row(notWell, f.Name, f.State(), "-", "-", "-", "-")
			continue
		}
		states.row(mark[f.IsOK()], f.Name, f.State(), r.Version, r.Uptime, r.RoundTrip.Round(10*time.Microsecond), f.Quarantine())
	}
	for i, f := range s.found {
		if s.blind[i] != nil && f.Err == nil && f.Refusal() == nil { // otherwise it is said why
			reasons.Add(f.Name, "not all locks are shown: "+masters.Reason(s.blind[i]))
		}
	}
	states.print(out)
	for _, g := range reasons {
		line := wrapped(fmt.Appendf(nil, "%s  %s: %s\n", notWell, g, g.Reason), cmp.Or(width, math.MaxInt))
		fmt.Fprint(out, strings.ReplaceAll(string(line), "\n"+indent, "\n"+notWell+indent[1:]))
	}
	fmt.Fprintln(out)

	// A terminal that is too narrow cuts the last columns.
	var busiest table
	busiest.row(" ", "LOCK", "WAITING", "CHANGES", "LEFT", "HELD BY", "TAKEN AT LEAST", "TOKEN AT MOST")
	most := nameWidth(width)
	for _, name := range s.ranked() {
		b := s.known[name]
		switch l := b.lock; {
		case l.State == lockstate.Held:
			busiest.row(" ", shownName(name, most), b.waiting, b.changes, rest(l.TTL), l.byWhom(), ago(l.since, now), l.topToken())
		case l.Name != "":
			busiest.row(mark[l.State == lockstate.Free], shownName(name, most), b.waiting, b.changes, "", "- ("+l.State+")", "", l.topToken())
		}
	}
	busiest.print(out)
}

func (s *survey) totals() string {
	unwell, held, unknown, waiting := 0, 0, 0, 0
	for _, f := range s.found {
		if !f.IsOK() {
			unwell++
		}
	}
	for _, b := range s.known {
		held, unknown, waiting = held+b.is(lockstate.Held), unknown+b.is(lockstate.Unknown), waiting+b.waiting
	}
	text := fmt.Sprintf("masters not ok: %d of %d; locks held: %d", unwell, len(s.found), held)
	if unknown > 0 {
		text += fmt.Sprintf("; unknown: %d", unknown)
	}
	text += fmt.Sprintf("; waiting: %d", waiting)
	if outlook := masters.Outlook(s.found, masters.Quorum(len(s.found), s.all)); outlook != "" {
		return notWell + "  " + text + "\n" + notWell + "  " + outlook
	}
	return text
}

func (l lockState) topToken() string {
	if l.Token == 0 {
		return "-"
	}
	return fmt.Sprint(l.Token)
}

// nameWidth returns how many columns a name may take on a terminal of that width, next to the columns up to LEFT, and
// on a wide one HELD BY.
func nameWidth(terminal int) int {
	if terminal == 0 {
		return longestName
	}
	return min(longestName, max(24, terminal-60))
}

// deployment says which masters make one lock, by the newest list that one of them has.
func (s *survey) deployment() string {
	kind := "redlock"
	if s.all {
		kind = "multilock"
	}
	var newest operator.Report
	silent := 0
	for _, f := range s.found {
		if f.Err != nil || errors.Is(f.Report.Refused, node.ErrReplica) { // a replica's marker is its master's
			silent++
		}
		if f.Err == nil && (len(newest.Members) == 0 || f.Report.Generation > newest.Generation) {
			newest = f.Report
		}
	}
	text := fmt.Sprintf("%s over %d masters", kind, len(s.found))
	if len(s.found) == 1 {
		text = kind + " over 1 master"
	}
	switch {
	case len(newest.Members) == 0 && silent > 0:
		return text // whose list is not known
	case len(newest.Members) == 0 && slices.ContainsFunc(s.found, masters.Finding.IsClaimed):
		return text + ", which are being marked"
	case len(newest.Members) == 0: // they are new, or have forgotten
		return text + ", without a list of masters"
	case len(newest.Next) > 0:
		text += fmt.Sprintf(", changing to %d", len(newest.Next))
	}
	return fmt.Sprintf("%s (generation %d of their list), max lease %v", text, newest.Generation, newest.MaxLease)
}

func (l lockState) byWhom() string {
	if l.Readers > 0 {
		return plain.Count(l.Readers, "reader") + l.waits()
	}
	if said := quorum.Identity(l.Identity).String(); said != "unknown" {
		return said
	}
	return fmt.Sprintf("%.64q", l.Owner)
}

func ago(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return now.Sub(at).Round(100*time.Millisecond).String() + " ago"
}

func rest(ttl time.Duration) string {
	if ttl == lockstate.Forever {
		return "no end"
	}
	return fmt.Sprintf("%.1fs", ttl.Seconds())
}
