// Package locks is the commands over locks: status and top show who holds them, and write nothing; unlock deletes them.
package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Commands show who holds locks, and delete them.
var Commands = []cli.Command{status, top, unlock}

const heldHint = "quorumlock top lists held locks"

// Hints are for words that users try for a list of the held locks.
var Hints = map[string]string{"locks": heldHint, "list": heldHint, "ls": heldHint, "ps": heldHint, "show": heldHint}

type line struct {
	names  []string // of locks on the masters
	all    bool
	flags  *cli.Flags
	access masters.Access
	check  func() error // whether the flags go together; nil if all do

	// Of status:
	slots              int // of each named semaphore; 0 for locks
	json, quiet, watch bool

	// Of unlock:
	slot  int // of the named semaphores; −1 for locks
	yes   bool
	owner string // whose locks are deleted; with an owner file, the owners' locker; empty for the owners that are shown
	file  string // the owner file, which has the names; empty for none
}

// over completes the row of a command over the masters of the environment; its arguments, if it has any, are names of locks.
// define adds flags, and returns the function that carries the command out.
func over(row cli.Command, define func(*cli.Flags, *line) action) cli.Command {
	row.Misuse = cli.ExitLockUsage
	row.Define = func(flags *cli.Flags) cli.Action {
		l := &line{slot: -1, flags: flags, access: masters.Access{Unsealed: true}}
		do := define(flags, l)
		flags.Boolean("all", "all masters must grant a lock, not a majority", &l.all)
		l.access.Flags(flags)
		return func(ctx context.Context, p *cli.Program, names []string) int {
			err := error(nil)
			if row.Arguments != "" {
				err = l.takeNames(names)
			}
			if err == nil && l.check != nil {
				err = l.check()
			}
			if err != nil {
				return p.Misused(fmt.Sprintf("%s: %v", p.Command, err))
			}
			return l.withMasters(ctx, p, do)
		}
	}
	return row
}

// action carries out a command on masters. If the error has an exit code, that one counts.
type action func(ctx context.Context, p *cli.Program, nodes []*node.Node) (int, error)

func (l *line) takeNames(names []string) error {
	switch {
	case l.file != "" && len(names) > 0:
		return errors.New("-owner-file has the names: give none")
	case l.file == "" && len(names) == 0:
		return errors.New("the name of a lock is missing; " + heldHint)
	}
	for i, name := range names {
		if err := masters.CheckLockName(name); err != nil {
			return err
		}
		if i > 0 && strings.HasPrefix(name, "-") {
			return errors.New("flags come before the names")
		}
	}
	l.names = l.withSlots(names)
	return nil
}

// withSlots returns the names of the locks. A semaphore has one lock for each slot.
func (l *line) withSlots(names []string) (locks []string) {
	for _, name := range names {
		switch {
		case l.slots > 0:
			for slot := range l.slots {
				locks = append(locks, scripts.SlotName(name, slot))
			}
		case l.slot >= 0:
			locks = append(locks, scripts.SlotName(name, l.slot))
		default:
			locks = append(locks, name)
		}
	}
	return locks
}

// closeTime is how long the end of a command waits for masters that do not answer.
const closeTime = 100 * time.Millisecond

// withMasters opens the masters, carries out an action on them, and reports an error in one line.
func (l *line) withMasters(ctx context.Context, p *cli.Program, do action) int {
	nodes, _, err := l.access.Open()
	code := cli.ExitOK
	if err == nil {
		code, err = do(ctx, p, nodes)
		closing, cancel := context.WithTimeout(ctx, closeTime) // nothing is left to say
		masters.CloseBy(closing, nodes)
		cancel()
	}
	switch code = cli.CodeOf(err, code); {
	case ctx.Err() != nil:
		return cli.ExitInterrupted
	case err != nil:
		fmt.Fprintf(p.Stderr, "quorumlock: %s: %s\n", p.Command, cli.OneLine(err))
	}
	return code
}
