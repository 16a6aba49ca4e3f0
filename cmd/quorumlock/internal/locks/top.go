package locks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/looks"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
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
		if f.Err != nil {
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
	case len(newest.Members) == 0:
		return text + ", which no client has used"
	case len(newest.Next) > 0:
		text += fmt.Sprintf(", changing to %d", len(newest.Next))
	}
	return fmt.Sprintf("%s (generation %d of their list), max lease %v", text, newest.Generation, newest.MaxLease)
}

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

const (
	// firstSurveys is how many calls first look for names on each master; later it is one per drawing. A call looks
	// at 1000 keys.
	firstSurveys = 10
	// topNames is how many names are inspected at most for one drawing.
	topNames = 200
)

type busy struct {
	name    string
	waiting int // how many connections wait for it, on the master with the most
	changes int // drawings in which the owner differed from the one before
	lock    lockState
}

type survey struct {
	all     bool
	cursors []string // of SCAN, by master
	known   map[string]*busy
	found   []masters.Finding
	began   []looks.Look // the first of each master
}

// look asks all masters for names, for the states of the names that were found, and for the masters' own state.
func (s *survey) look(ctx context.Context, nodes []*node.Node, isLive bool) {
	rounds := 1
	if s.found == nil {
		rounds = firstSurveys
	}
	for _, b := range s.known {
		b.waiting = 0
	}
	for range rounds {
		s.find(ctx, nodes)
	}
	names := s.ranked()
	names = names[:min(len(names), topNames)]
	locks, found := inspect(ctx, nodes, s.all, isLive, names)
	s.found = found
	if s.began == nil {
		s.began = make([]looks.Look, len(nodes))
	}
	for i := range found {
		if s.began[i].View == nil {
			s.began[i] = found[i].Look()
		}
		found[i].CompareRate(s.began[i])
	}
	for _, lock := range locks {
		b := s.known[lock.Name]
		if b.lock.Owner != "" && lock.Owner != "" && b.lock.Owner != lock.Owner {
			b.changes++
		}
		b.lock = lock
	}
	maps.DeleteFunc(s.known, func(_ string, b *busy) bool { // the next survey of its key finds it again
		return b.waiting == 0 && b.changes == 0 && (b.lock.State == lockstate.Free || b.lock.Name == "")
	})
}

func (s *survey) find(ctx context.Context, nodes []*node.Node) {
	replies := masters.Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) any {
		return inside.Of(n).Pipe("").Do(ctx, operators.Survey(s.cursors[i])).Reply.Other
	})
	for i, said := range replies {
		r, ok := said.(*operators.SurveyReply)
		if !ok {
			continue
		}
		s.cursors[i] = r.Cursor
		for _, name := range r.Names {
			s.nameKnown(name)
		}
		for name, waiting := range r.Waiting {
			if semaphore, ok := strings.CutPrefix(name, scripts.SlotsName("")); ok {
				s.noteWaiting(semaphore, waiting)
				continue
			}
			b := s.nameKnown(name)
			b.waiting = max(b.waiting, waiting)
		}
	}
}

// noteWaiting records how many connections wait for a semaphore, at its lowest known slot: they take any slot that
// comes free.
func (s *survey) noteWaiting(semaphore string, waiting int) {
	var first *busy
	lowest := scripts.MaxSlots
	for _, b := range s.known {
		if of, slot, ok := scripts.ParseSlot(b.name); ok && of == semaphore && slot < lowest {
			first, lowest = b, slot
		}
	}
	if first != nil {
		first.waiting = max(first.waiting, waiting)
	}
}

func (s *survey) nameKnown(name string) *busy {
	b := s.known[name]
	if b == nil {
		b = &busy{name: name}
		s.known[name] = b
	}
	return b
}

// ranked returns the names: first the ones that too few masters can judge, then the busiest.
func (s *survey) ranked() []string {
	all := slices.SortedFunc(maps.Values(s.known), func(a, b *busy) int {
		return cmp.Or(cmp.Compare(b.is(lockstate.Unknown), a.is(lockstate.Unknown)), cmp.Compare(b.waiting, a.waiting),
			cmp.Compare(b.changes, a.changes), cmp.Compare(b.is(lockstate.Held), a.is(lockstate.Held)), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.name
	}
	return names
}

// is returns 1 for a lock that was seen in that state, else 0.
func (b *busy) is(state string) int {
	if b.lock.Name != "" && b.lock.State == state {
		return 1
	}
	return 0
}
