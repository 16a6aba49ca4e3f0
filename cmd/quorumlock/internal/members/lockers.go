package members

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/plain"
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
	_, others, lacks := d.lockersWithout(ctx, to)
	if len(others) > 0 {
		left := time.Duration(0)
		for _, l := range others {
			left = max(left, d.maxLease+scripts.IntroduceEvery-l.Age(d.maxLease))
		}
		return fmt.Errorf("not all lockers have %s yet. These have locked lately with another list, and would lose their locks:\n%s"+
			"Deploy them with it, or stop them, and repeat the command: a locker that has stopped counts for another %v at most. "+
			"-yes commits at once", to, nameLockers(others, d.maxLease), left.Round(time.Second))
	}
	if len(lacks) == len(d.names) {
		return fmt.Errorf("no master said which lockers there are, so some may still have another list than %s: let the user of "+
			"these URLs read the lockers (~quorumlock:*, +scan, +mget and +pttl), or make sure that all clients have that list, and "+
			"commit with -yes", to)
	}
	if len(lacks) > 0 {
		fmt.Fprintf(out, "%s did not say which lockers there are.\n", strings.Join(lacks, ", "))
	}
	return nil
}

func (d deployment) showLockers(ctx context.Context, to *scripts.List, out io.Writer) {
	n, others, lacks := d.lockersWithout(ctx, to)
	switch {
	case len(others) > 0:
		fmt.Fprintf(out, "Lockers that have another list than %s:\n%s%s\n", to, nameLockers(others, d.maxLease), onlyThoseThatLock)
	case n > 0:
		fmt.Fprintf(out, "All running lockers that have locked lately have %s. %s\n", to, onlyThoseThatLock)
	default:
		fmt.Fprintf(out, "No running locker has locked lately. %s\n", onlyThoseThatLock)
	}
	if len(lacks) > 0 {
		fmt.Fprintf(out, "%s did not say which lockers there are.\n", strings.Join(lacks, ", "))
	}
}
