package locks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

const unlockMeaning = `It deletes what it shows: a holder that comes later keeps its lock. Readers are deleted together,
and so is who comes while that is done: name one with -owner.
A holder notices at its next renewal, or when its fixed lease ends.
Until then two holders are possible. End the holder first, or let the resource check the token.
`

var unlock = over(cli.Command{
	Name: "unlock", Arguments: "NAME...", Usage: "delete locks, no matter which process holds them; without -yes only show them",
	Help: `Example, once the holder has been ended:
  quorumlock unlock -yes -urls-file /etc/quorumlock/urls nightly-report

Exit codes: 0 if no lock is left, 1 if masters refuse, 69 if masters that did not answer, or may have forgotten, could hide
a holder; 64 without -yes; 75 if the owner of -owner-file is alive; 78 as for status, or for that file.`,
}, func(flags *cli.Flags, l *line) action {
	flags.Boolean("yes", "delete them", &l.yes)
	flags.Text("owner", "delete only the locks of the owner `ID`: any other holder keeps them", "an owner's id",
		operators.ValidOwner, &l.owner)
	flags.Number("slot", "slot `K` of each semaphore NAME", "a number", 0, scripts.MaxSlots-1, &l.slot)
	flags.Path("owner-file", "delete the lock that run -owner-file has left in `FILE`, if the run and its job are dead, and the file", &l.file)
	l.check = func() error {
		if l.file != "" && (l.owner != "" || l.slot >= 0) {
			return errors.New("-owner-file has the owner and the slot: give neither")
		}
		return nil
	}
	return l.unlock
})

// unlock unlocks what the line names, or the owner file that it names.
func (l *line) unlock(ctx context.Context, p *cli.Program, nodes []*node.Node) (int, error) {
	if l.file == "" {
		return l.unlockNames(ctx, p, nodes)
	}
	var file *ownerfile.File
	var dead *ownerfile.Record
	var err error
	if !l.yes { // one who only looks disturbs no run
		dead, err = ownerfile.Look(l.file)
	} else if file, err = ownerfile.Open(l.file, false); err == nil {
		defer file.Close()
		dead = file.Record()
	}
	switch {
	case errors.Is(err, ownerfile.ErrInUse):
		return 0, cli.ExitWith(cli.ExitHeld, err)
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(p.Stdout, "nothing to unlock: there is no file %q\n", l.file)
		return cli.ExitOK, nil
	case err != nil:
		return 0, cli.ExitWith(cli.ExitConfiguration, err)
	}
	if dead == nil {
		fmt.Fprintf(p.Stdout, "nothing to unlock: no owner in %q\n", l.file)
		return cli.ExitOK, nil
	}
	if err := dead.Foreign(nodes); err != nil {
		return 0, cli.ExitWith(cli.ExitConfiguration, fmt.Errorf("the owner file %q: %w", l.file, err))
	}
	l.owner, l.names = dead.Owner, dead.Locks()
	code, err := l.unlockNames(ctx, p, nodes)
	if code == cli.ExitOK && err == nil {
		file.Remove()
	}
	return code, err
}

func (l *line) unlockNames(ctx context.Context, p *cli.Program, nodes []*node.Node) (int, error) {
	locks, _ := inspect(ctx, nodes, l.all, false, l.names)
	if !l.yes {
		l.explainUnlock(locks, p.Stderr)
		return cli.ExitLockUsage, nil
	}
	constructor := redlock.New
	if l.all {
		constructor = multilock.New
	}
	locker, err := constructor(nodes, quorum.WithLogger(masters.Silent), quorum.WithoutFounding(),
		quorum.WithLease(min(quorum.DefaultLease, l.access.MaxLease)))
	if err != nil {
		return 0, cli.ExitWith(cli.ExitConfiguration, err)
	}
	defer locker.Close()
	code := cli.ExitOK
	for _, lock := range locks {
		code = max(code, forceOne(ctx, locker, nodes, lock, l.owner, p.Stdout))
	}
	return code, nil
}

func (l *line) explainUnlock(locks []lockState, out io.Writer) {
	if l.owner != "" {
		fmt.Fprintf(out, "quorumlock: unlock deletes these locks on all masters where %q has them. End it first.\n\n", l.owner)
	} else {
		fmt.Fprintln(out, "quorumlock: unlock deletes these locks on all masters, no matter which process holds them.")
		fmt.Fprint(out, unlockMeaning+"\n")
	}
	printLocks(out, locks)
	var lines []string
	for _, lock := range locks {
		name := lock.Name
		if of, _, isSlot := scripts.ParseSlot(name); isSlot {
			name = of
		}
		for _, owner := range lock.owners(l.owner) {
			lines = append(lines, "  "+l.flags.UnlockLine(owner, name))
		}
	}
	fmt.Fprint(out, "\nTo do it: the same command with -yes.")
	if lines != nil && l.file == "" { // which has the owner
		fmt.Fprint(out, " To delete no other holder's:\n", strings.Join(lines, "\n"))
	}
	fmt.Fprintln(out)
}

// owners returns whose locks are to be deleted: the one that was asked for, or those that the masters show, of a locker
// that was asked for or of any.
func (l lockState) owners(asked string) (owners []string) {
	if operators.ValidOwner(asked) {
		return []string{asked}
	}
	for _, m := range l.Masters {
		if m.Owner != "" && (asked == "" || ownerfile.IsOf(m.Owner, asked)) && !slices.Contains(owners, m.Owner) {
			owners = append(owners, m.Owner)
		}
	}
	return owners
}

// targets is owners, or an empty one for all: readers have none.
func (l lockState) targets(asked string) []string {
	if asked == "" && slices.ContainsFunc(l.Masters, func(m lockstate.Master) bool { return m.Readers > 0 }) {
		return []string{""}
	}
	return l.owners(asked)
}

// force deletes what was seen at a lock, or at a slot of a semaphore.
func force(ctx context.Context, locker *quorum.Locker, lock lockState, asked string) (err error) {
	for _, owner := range lock.targets(asked) {
		name, slot, isSlot := scripts.ParseSlot(lock.Name)
		slots := semaphore.New(locker, name, scripts.MaxSlots)
		switch {
		case owner == "" && isSlot:
			err = operator.ForceUnlockSlots(ctx, slots, slot)
		case owner == "":
			err = operator.ForceUnlock(ctx, locker, lock.Name)
		case isSlot:
			err = operator.ForceUnlockOwnerSlots(ctx, slots, owner, slot)
		default:
			err = operator.ForceUnlockOwner(ctx, locker, owner, lock.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printUnconfirmed says that a holder may be left that the masters did not show.
func (l lockState) printUnconfirmed(out io.Writer, asked string) {
	known := "no master shows a holder"
	switch {
	case operators.ValidOwner(asked): // a reader's masters do not name it
		known = fmt.Sprintf("%q has nothing left on the masters that answer", asked)
	case l.targets(asked) != nil:
		known = "what the masters show is deleted"
	case asked != "":
		known = fmt.Sprintf("no master shows a lock of %q", asked)
	}
	fmt.Fprintf(out, "NOT CONFIRMED: %s; %s\n", l, known)
	for i, m := range l.Masters {
		if m.Err == nil && m.MayHide() {
			fmt.Fprintf(out, "  %s: %s\n", m.Node, says(m, l.found[i]))
		}
	}
	printErrors(out, l.errs())
}

func forceOne(ctx context.Context, locker *quorum.Locker, nodes []*node.Node, lock lockState, owner string, out io.Writer) int {
	errs := lock.errs()
	// Masters that accept other clients would carry it out, and say nothing of the others' lock.
	if lock.quorum.Enough(lock.answered()) {
		errs = nil
		var failed *quorum.Error
		switch err := force(ctx, locker, lock, owner); {
		case errors.As(err, &failed) && failed.Nodes != nil:
			errs = failed.Nodes.Errors
		case err != nil:
			errs = []error{err}
		case lock.mayBeHidden():
			lock.printUnconfirmed(out, owner)
			return cli.ExitUnavailable
		default:
			done := "unlocked: " + lock.sentence("was")
			if owner != "" && !ownerfile.IsOf(lock.Owner, owner) {
				done = fmt.Sprintf("%q has nothing left on the masters that answer; before: %s", owner, lock)
			}
			fmt.Fprintln(out, done)
			printErrors(out, lock.errs()) // these masters confirm nothing
			return cli.ExitOK
		}
	}
	fmt.Fprintf(out, "NOT UNLOCKED: %s\n", lock)
	code := cli.ExitUnavailable
	printErrors(out, errs)
	if lock.quorum.Blocks(masters.Refusing(errs, nodes)) {
		code = cli.ExitFailed // these masters refuse again
	}
	return code
}
