package locks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/quorum"
)

// topInterval is how often top looks at the masters.
const topInterval = 2 * time.Second

// top shows the masters and the busiest locks.
var top = cli.Command{
	Name: "top", Usage: "show the masters and the busiest locks, live on a terminal until q and Enter, else once; writes nothing",
	Help: `Example:
  quorumlock top -every 5s -urls-file /etc/quorumlock/urls

Exit codes: 0, 69 if no master answers, 130 after Ctrl-C; 64 and 78 as for status.`,
	Misuse: cli.ExitLockUsage,
	Define: func(flags *cli.Flags) cli.Action {
		l, every := &line{}, topInterval
		flags.Duration("every", "look every `D` (2s)", 100*time.Millisecond, &every)
		l.masterFlags(flags)
		return func(ctx context.Context, p *cli.Program, _ []string) int {
			return l.withMasters(ctx, p, func(ctx context.Context, p *cli.Program, nodes []*node.Node) (int, error) {
				return newSurvey(len(nodes), l.all).show(ctx, p.Stdout, nodes, every)
			})
		}
	},
}

// show draws what the masters say again and again.
func (s *survey) show(ctx context.Context, out io.Writer, nodes []*node.Node, every time.Duration) (int, error) {
	code, none := cli.ExitOK, error(nil)
	err := watch(ctx, out, every, false, func(ctx context.Context) ([]byte, error) {
		s.look(ctx, nodes)
		code, none = cli.ExitOK, nil
		if !slices.ContainsFunc(s.found, func(f masters.Finding) bool { return f.Err == nil }) {
			code, none = cli.ExitUnavailable, errors.New("no master answers")
		}
		var text bytes.Buffer
		s.print(&text, time.Now())
		return text.Bytes(), nil
	})
	return code, cmp.Or(err, none)
}

// print prints the masters and the locks, first those that are not well. Their lines begin with notWell.
func (s *survey) print(out io.Writer, now time.Time) {
	mark := map[bool]string{true: " ", false: notWell}
	found, unwell, held, waiting := slices.Clone(s.found), 0, 0, 0
	slices.SortStableFunc(found, func(a, b masters.Finding) int { return cmp.Compare(mark[b.IsOK()], mark[a.IsOK()]) })
	for _, f := range found {
		if !f.IsOK() {
			unwell++
		}
	}
	for _, b := range s.known {
		held, waiting = held+b.heldRank(), waiting+b.waiting
	}
	fmt.Fprintf(out, "quorumlock top, %s; %s\nmasters not ok: %d of %d; locks held: %d; waiting: %d\n\n", now.Format(time.TimeOnly),
		s.deployment(), unwell, len(found), held, waiting)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, " \tMASTER\tSTATE\tVERSION\tUP\tROUND TRIP\tQUARANTINE")
	for _, f := range found {
		r := f.Report
		if f.Err != nil {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", notWell, f.Name, f.State(), masters.Reason(f.Err))
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%v\t%v\t%s\n", mark[f.IsOK()], f.Name, f.State(), r.Version, r.Uptime,
			r.RoundTrip.Round(10*time.Microsecond), masters.Left(r.Quarantine))
	}
	fmt.Fprintln(table)
	// A terminal that is too narrow cuts the last columns.
	fmt.Fprintln(table, " \tLOCK\tWAITING\tCHANGES\tLEFT\tHELD BY\tTAKEN AT LEAST\tTOKEN AT MOST")
	for _, name := range s.ranked() {
		b := s.known[name]
		switch l := b.lock; {
		case l.State == lockstate.Held:
			fmt.Fprintf(table, " \t%s\t%d\t%d\t%s\t%s\t%s\t%d\n", shownName("%.64q", name), b.waiting, b.changes,
				rest(l.TTL), l.byWhom(), ago(l.since, now), l.Token)
		case l.Name != "":
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t\t- (%s)\t\t%d\n", mark[l.State == lockstate.Free], shownName("%.64q", name), b.waiting, b.changes, l.State, l.Token)
		}
	}
	table.Flush()
}

// deployment says which masters make one lock, by the newest list that one of them has.
func (s *survey) deployment() string {
	kind := "redlock"
	if s.all {
		kind = "multilock"
	}
	var newest operator.Report
	for _, f := range s.found {
		if f.Err == nil && (len(newest.Members) == 0 || f.Report.Generation > newest.Generation) {
			newest = f.Report
		}
	}
	text := fmt.Sprintf("%s over %d masters", kind, len(s.found))
	switch {
	case len(newest.Members) == 0:
		return text + ", which no client has used"
	case len(newest.Next) > 0:
		text += fmt.Sprintf(", changing to %d", len(newest.Next))
	}
	return fmt.Sprintf("%s (generation %d of their list), max lease %v", text, newest.Generation, newest.MaxLease)
}

// byWhom names the process, or else the owner.
func (l lockState) byWhom() string {
	if l.Readers > 0 {
		return readers(l.Readers) + l.waits()
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
