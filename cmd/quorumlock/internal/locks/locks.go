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
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/quorate"
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

type lockState struct {
	lockstate.Lock
	quorum quorate.Rule
	since  time.Time         // or earlier, by the counter; zero if that is not known
	found  []masters.Finding // by master
}

// inspect reads the states of the names on all masters, and the masters' own state. It writes nothing: a
// quorum.Locker would mark new masters.
func inspect(ctx context.Context, nodes []*node.Node, all, isLive bool, names []string) ([]lockState, []masters.Finding) {
	read := lockstate.Read(ctx, nodes, names...)
	lockstate.Identify(ctx, nodes, read)
	// A master that restarts between the two calls has forgotten by the second, so that one counts.
	if isLive { // a screen does not wait for a master as long as a connection may take
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 3*nodes[0].Timeout())
		defer cancel()
	}
	found := masters.CheckAll(ctx, nodes)
	locks := make([]lockState, len(names))
	for i, name := range names {
		for j := range nodes {
			m := &read[i][j]
			if err := found[j].NoVote; err != nil && m.Err == nil {
				*m = lockstate.Master{Node: m.Node, Err: err}
			}
			if m.Err == nil {
				m.Quarantine = found[j].Report.Quarantine
			}
		}
		quorum := masters.Quorum(len(nodes), all)
		lock := lockstate.Judge(name, read[i], quorum)
		locks[i] = lockState{lock, quorum, takenAt(lock, time.Now()), found}
	}
	return locks, found
}

func (l lockState) errs() (errs []error) {
	for _, m := range l.Masters {
		if m.Err != nil {
			errs = append(errs, m.Err)
		}
	}
	return errs
}

// answered returns the masters that have a vote.
func (l lockState) answered() (set quorate.Set) {
	for i, m := range l.Masters {
		if m.Err == nil {
			set |= quorate.Of(i)
		}
	}
	return set
}

func (l lockState) code(nodes []*node.Node) int {
	switch l.State {
	case lockstate.Held:
		return cli.ExitOK
	case lockstate.Free:
		return cli.ExitFailed
	}
	return masters.ExitCode(l.errs(), nodes, l.quorum)
}

// takenAt returns when a lock was taken at the latest. A token is the clock of the client that took the lock, in µs, or
// one more than the counter before, if that client's clock was behind. Names that share the counter may have raised it
// since. Clients of other libraries, which have no identity, count no tokens.
func takenAt(l lockstate.Lock, now time.Time) time.Time {
	token := uint64(0)
	for _, m := range l.Masters {
		if m.Owner == l.Owner {
			token = max(token, m.Token)
		}
	}
	at := time.UnixMicro(int64(token))
	if l.Identity == (scripts.Identity{}) || at.After(now) || now.Sub(at) > 10*365*24*time.Hour {
		return time.Time{}
	}
	return at
}
