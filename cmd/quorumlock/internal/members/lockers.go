package members

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

const (
	// mostLockerCalls bounds how many keys of a master are looked at, 1000 by each call.
	mostLockerCalls = 500
	// shownLockers is how many lockers are named.
	shownLockers = 10
)

// onlyThoseThatLock is what the masters do not know of clients.
const onlyThoseThatLock = "Only lockers that run and lock are known, no job that has ended."

// census is the lockers that may hold a lock, or take the next one soon.
type census struct {
	lockers []operators.Introduced
	lacks   []string // masters that did not answer, or not completely
}

// countLockers asks all masters which lockers there are.
func (d deployment) countLockers(ctx context.Context) (c census) {
	type heard struct {
		found []operators.Introduced
		all   bool
	}
	nodes := make([]*node.Node, len(d.names))
	for i, name := range d.names {
		nodes[i] = d.nodes[name]
	}
	latest := map[string]operators.Introduced{}
	for i, h := range masters.Each(ctx, nodes, func(ctx context.Context, _ int, n *node.Node) (h heard) {
		cursor := "0"
		for range mostLockerCalls {
			r := call(ctx, n, operators.Lockers(cursor))
			if r.Err != nil {
				return h
			}
			said := r.Reply.Other.(*operators.LockersReply)
			h.found = append(h.found, said.Found...)
			if cursor = said.Cursor; cursor == "0" {
				return heard{h.found, true}
			}
		}
		return h
	}) {
		if !h.all {
			c.lacks = append(c.lacks, nodes[i].Name())
		}
		for _, l := range h.found {
			if before, known := latest[l.Locker]; l.MayHold(nodes[i].MaxLease()) && (!known || before.Left < l.Left) {
				latest[l.Locker] = l
			}
		}
	}
	c.lockers = slices.SortedFunc(maps.Values(latest), func(a, b operators.Introduced) int {
		return cmp.Or(cmp.Compare(a.Identity.Host, b.Identity.Host), cmp.Compare(a.Identity.PID, b.Identity.PID),
			cmp.Compare(a.Locker, b.Locker))
	})
	return c
}

// without returns the lockers that do not report that list.
func (c census) without(list *scripts.List) (others []operators.Introduced) {
	for _, l := range c.lockers {
		if !l.HasList(list) {
			others = append(others, l)
		}
	}
	return others
}

// nameLockers returns the lockers in words, one a line.
func nameLockers(lockers []operators.Introduced, maxLease time.Duration) string {
	var b strings.Builder
	for i, l := range lockers {
		if i == shownLockers {
			fmt.Fprintf(&b, "  and %d more\n", len(lockers)-i)
			break
		}
		is := l.Identity
		fmt.Fprintf(&b, "  on %.64s, pid %d", plain.Text(is.Host), is.PID)
		for _, word := range []string{is.Program, is.Label} {
			if word != "" {
				fmt.Fprintf(&b, ", %.64s", plain.Text(word))
			}
		}
		fmt.Fprintf(&b, " (seen %v ago)\n", l.Age(maxLease).Round(time.Second))
	}
	return b.String()
}

// isEveryClientMoved returns why the list may not be committed yet: a locker that may hold a lock has
// another list. After the commit it would lose the lock at its deadline.
func (d deployment) isEveryClientMoved(ctx context.Context, to *scripts.List, out io.Writer) error {
	found, maxLease := d.countLockers(ctx), d.nodes[d.names[0]].MaxLease()
	others := found.without(to)
	if len(others) > 0 {
		left := time.Duration(0)
		for _, l := range others {
			left = max(left, maxLease+scripts.IntroduceEvery-l.Age(maxLease))
		}
		return fmt.Errorf("not all lockers have %s yet. These have locked lately with another list, and would lose their locks:\n%s"+
			"Deploy them with it, or stop them, and repeat the command: a locker that has stopped counts for another %v at most. "+
			"-yes commits at once", to, nameLockers(others, maxLease), left.Round(time.Second))
	}
	if len(found.lacks) == len(d.names) {
		return fmt.Errorf("no master said which lockers there are, so some may still have another list than %s: let the user of "+
			"these URLs read the lockers (~quorumlock:*, +scan, +mget and +pttl), or make sure that all clients have that list, and "+
			"commit with -yes", to)
	}
	if len(found.lacks) > 0 {
		fmt.Fprintf(out, "%s did not say which lockers there are.\n", strings.Join(found.lacks, ", "))
	}
	return nil
}

// showLockers prints which lockers have another list than the announced one.
func (d deployment) showLockers(ctx context.Context, to *scripts.List, out io.Writer) {
	found := d.countLockers(ctx)
	others := found.without(to)
	switch {
	case len(others) > 0:
		fmt.Fprintf(out, "Lockers that have another list than %s:\n%s%s\n", to,
			nameLockers(others, d.nodes[d.names[0]].MaxLease()), onlyThoseThatLock)
	case len(found.lockers) > 0:
		fmt.Fprintf(out, "All running lockers that have locked lately have %s. %s\n", to, onlyThoseThatLock)
	default:
		fmt.Fprintf(out, "No running locker has locked lately. %s\n", onlyThoseThatLock)
	}
	if len(found.lacks) > 0 {
		fmt.Fprintf(out, "%s did not say which lockers there are.\n", strings.Join(found.lacks, ", "))
	}
}
