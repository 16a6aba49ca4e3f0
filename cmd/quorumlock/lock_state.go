package main

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// The states of a lock.
const (
	lockHeld    = "held"
	lockFree    = "free"
	lockUnknown = "unknown" // masters that do not answer, or may have forgotten it, could make the difference
)

// forever is the time to live of a key that never expires.
const forever = time.Duration(-1)

// lockState is what the masters say of one name.
type lockState struct {
	name    string
	state   string
	owner   string // of a lock that is held, and so are the next two
	level   int
	ttl     time.Duration // at most, unless renewed
	token   uint64        // the highest counter, which other names share: the last token is no higher
	who     quorum.Identity
	since   time.Time // or earlier, by the counter; zero where that is not known
	masters []masterState
}

// masterState is what one master says of a name. With an error the fields below it are zero.
type masterState struct {
	name       string
	err        error  // a *node.Error: why it has no vote
	owner      string // empty for none
	level      int
	ttl        time.Duration
	token      uint64
	who        quorum.Identity // the owner's; zero for an unknown one
	quarantine time.Duration
	unused     bool // its quarantine has not begun: a client must come
}

// inspect reads the states of the names on all masters. It writes nothing: a quorum.Locker would
// mark masters that are new.
func inspect(ctx context.Context, nodes []*node.Node, all bool, names []string) []lockState {
	locks, _ := inspectMasters(ctx, nodes, all, names)
	return locks
}

// inspectMasters also returns what the masters say of themselves.
func inspectMasters(ctx context.Context, nodes []*node.Node, all bool, names []string) ([]lockState, []finding) {
	read := each(ctx, nodes, func(ctx context.Context, n *node.Node) []masterState {
		states := make([]masterState, len(names))
		for i, name := range names {
			states[i] = inspectOne(ctx, n, name)
		}
		return states
	})
	identify(ctx, nodes, read)
	// A master that restarts between the two calls has forgotten by the second, so that one counts.
	found := each(ctx, nodes, checkOne)
	findTwins(found)
	list := listOf(nodes)
	locks := make([]lockState, len(names))
	for i, name := range names {
		masters := make([]masterState, len(nodes))
		for j := range nodes {
			masters[j] = read[j][i]
			if err := found[j].noVote(list); err != nil && masters[j].err == nil {
				masters[j] = masterState{name: nodes[j].Name(), err: err}
			}
			if masters[j].err == nil {
				masters[j].quarantine = found[j].report.Quarantine
				masters[j].unused = isUnused(found[j].report, nodes[j].MaxLease())
			}
		}
		locks[i] = conclude(name, masters, quorumSize(len(nodes), all))
	}
	return locks, found
}

// identify adds which processes the owners are, as far as the masters know.
func identify(ctx context.Context, nodes []*node.Node, read [][]masterState) {
	var lockers []string
	for _, states := range read {
		for _, s := range states {
			if locker := scripts.LockerOf(s.owner); s.owner != "" && !slices.Contains(lockers, locker) {
				lockers = append(lockers, locker)
			}
		}
	}
	known := map[string]quorum.Identity{}
	for some := range slices.Chunk(lockers, scripts.MaxWho) {
		for _, found := range each(ctx, nodes, func(ctx context.Context, n *node.Node) []scripts.Identity {
			return inside.Of(n).Pipe("").Do(ctx, scripts.Who(some)).Reply.Who // none where the user may not read them
		}) {
			for i, is := range found {
				if is != (scripts.Identity{}) {
					known[some[i]] = quorum.Identity(is)
				}
			}
		}
	}
	for _, states := range read {
		for i := range states {
			states[i].who = known[scripts.LockerOf(states[i].owner)]
		}
	}
}

func inspectOne(ctx context.Context, n *node.Node, name string) masterState {
	r := inside.Of(n).Pipe(name).Do(ctx, scripts.Inspect(scripts.NewName(name)))
	if r.Err != nil {
		return masterState{name: n.Name(), err: r.Err}
	}
	reply := r.Reply.Inspect
	return masterState{name: n.Name(), owner: reply.Owner, level: reply.Level, ttl: reply.TTL, token: reply.Token}
}

// conclude returns the state that follows from those of all masters. A lock is free when no owner
// can have the quorum: not even with the masters that did not answer, and those in quarantine.
func conclude(name string, masters []masterState, need int) lockState {
	lock := lockState{name: name, state: lockFree, masters: masters}
	grants, doubtful := map[string][]masterState{}, 0
	for _, m := range masters {
		lock.token = max(lock.token, m.token)
		switch {
		case m.owner != "":
			grants[m.owner] = append(grants[m.owner], m)
		case m.err != nil || m.quarantine > 0:
			doubtful++
		}
	}
	if doubtful >= need {
		lock.state = lockUnknown
	}
	for owner, by := range grants {
		switch {
		case len(by) >= need:
			lock.state, lock.owner, lock.level = lockHeld, owner, by[0].level
			lock.ttl, lock.who = keptFor(by, need), by[0].who
			lock.since = takenAt(by, time.Now())
			return lock
		case len(by)+doubtful >= need:
			lock.state = lockUnknown
		}
	}
	return lock
}

// errs returns why masters have no vote.
func (l lockState) errs() (errs []error) {
	for _, m := range l.masters {
		if m.err != nil {
			errs = append(errs, m.err)
		}
	}
	return errs
}

// code returns the exit code for a lock, of which so many masters are needed.
func (l lockState) code(need int) int {
	switch l.state {
	case lockHeld:
		return exitOK
	case lockFree:
		return exitFailed
	}
	return codeOfMasters(l.errs(), len(l.masters), need)
}

// takenAt returns when a lock was taken at the latest. A token is the clock of the client that took
// the lock, in µs, or one more than the counter before, where that client's clock was behind. Names
// that share the counter may have raised it since. Clients of other libraries, which have no
// identity, count no tokens.
func takenAt(by []masterState, now time.Time) time.Time {
	token := uint64(0)
	for _, m := range by {
		token = max(token, m.token)
	}
	at := time.UnixMicro(int64(token))
	if by[0].who == (quorum.Identity{}) || at.After(now) || now.Sub(at) > 10*365*24*time.Hour {
		return time.Time{}
	}
	return at
}

// keptFor returns for how long at most as many masters as needed keep their grants.
func keptFor(grants []masterState, need int) time.Duration {
	ttls := []time.Duration{}
	for _, m := range grants {
		if m.ttl != forever {
			ttls = append(ttls, m.ttl)
		}
	}
	endless := len(grants) - len(ttls)
	if endless >= need {
		return forever
	}
	slices.Sort(ttls)
	return ttls[len(ttls)-(need-endless)]
}
