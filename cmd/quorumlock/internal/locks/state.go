package locks

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

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

// mayBeHidden reports whether a holder that no master shows may have the lock.
func (l lockState) mayBeHidden() bool {
	var hiding quorate.Set
	for i, m := range l.Masters {
		if m.MayHide() {
			hiding |= quorate.Of(i)
		}
	}
	return l.quorum.Enough(hiding)
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
