package main

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

	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/urfave/cli/v3"
)

// topInterval is how often top looks at the masters.
const topInterval = 2 * time.Second

// topCommand makes the command that shows the masters and the busiest locks.
func (p *program) topCommand() *cli.Command {
	flags, line, every := &lineFlags{}, newLockLine(), topInterval
	flags.duration("every", "look every `D` (2s)", 100*time.Millisecond, &every)
	line.masterFlags(flags)
	return p.command("top", "show the masters and the busiest locks, live on a terminal until q and Enter, else once; writes nothing", " ", flags,
		exitRunUsage, func(ctx context.Context, args []string) int {
			if len(args) > 0 {
				p.misused("top takes no arguments")
				return exitRunUsage
			}
			return p.withMasters(ctx, "top", line, func(ctx context.Context, line *lockLine, nodes []*node.Node) (int, error) {
				return p.top(ctx, nodes, newSurvey(len(nodes), line.all), every)
			})
		})
}

func (p *program) top(ctx context.Context, nodes []*node.Node, s *survey, every time.Duration) (int, error) {
	code, none := exitOK, error(nil)
	err := watch(ctx, p.stdout, every, false, func(ctx context.Context) ([]byte, error) {
		s.look(ctx, nodes)
		code, none = exitOK, nil
		if !slices.ContainsFunc(s.found, func(f finding) bool { return f.err == nil }) {
			code, none = exitUnavailable, errors.New("no master answers")
		}
		var text bytes.Buffer
		s.print(&text)
		return text.Bytes(), nil
	})
	return code, cmp.Or(err, none)
}

// print prints the masters and the locks.
func (s *survey) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MASTER\tSTATE\tVERSION\tUP\tROUND TRIP\tQUARANTINE")
	for _, f := range s.found {
		r := f.report
		if f.err != nil {
			fmt.Fprintf(table, "%s\t%s\t%s\n", f.name, f.state(), reason(f.err))
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%v\t%s\n", f.name, f.state(), r.Version, r.Uptime,
			r.RoundTrip.Round(10*time.Microsecond), left(r.Quarantine))
	}
	fmt.Fprintln(table)
	// A terminal that is too narrow cuts the last columns.
	fmt.Fprintln(table, "LOCK\tWAITING\tCHANGES\tLEFT\tHELD BY\tTAKEN AT LEAST\tTOKEN AT MOST")
	now := time.Now()
	for _, name := range s.ranked() {
		b := s.known[name]
		switch l := b.lock; {
		case l.State == lockstate.Held:
			fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t%s\t%d\n", shownName("%.64q", name), b.waiting, b.changes,
				rest(l.TTL), l.byWhom(), ago(l.since, now), l.Token)
		case l.Name != "":
			fmt.Fprintf(table, "%s\t%d\t%d\t\t- (%s)\t\t%d\n", shownName("%.64q", name), b.waiting, b.changes, l.State, l.Token)
		}
	}
	table.Flush()
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
