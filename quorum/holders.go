package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// holderWait bounds how long a failed TryLock waits to learn which process the holder is. The
	// node that is asked has just answered.
	holderWait = 20 * time.Millisecond
	// holderPause is how long an identity that a node does not know counts as unknown, and the
	// least time between two questions of calls that wait.
	holderPause = time.Second
	// maxHolders bounds how many lockers, and owners, are remembered.
	maxHolders = 256
)

// holders tells errors which process holds a lock, and its token. It remembers the answers, and
// asks nobody in the way of an attempt: only when an attempt has failed, and a node has named a
// holder that is not known.
type holders struct {
	nodes    []*node.Node
	locker   string // the Locker's own id
	identity Identity
	clock    clock.Clock

	mu      sync.Mutex
	lockers map[string]knownLocker
	tokens  map[string]uint64 // by owner: each attempt has a fresh one
	askedAt clock.Instant     // of the last question for a call that waits
}

// knownLocker is what a node said of a locker. An identity does not change.
type knownLocker struct {
	identity Identity
	until    clock.Instant // of an unknown one
}

func newHolders(nodes []*node.Node, locker string, identity Identity, c clock.Clock) *holders {
	return &holders{nodes: nodes, locker: locker, identity: identity, clock: c,
		lockers: map[string]knownLocker{}, tokens: map[string]uint64{}, askedAt: clock.Never}
}

// describe completes an error, and asks the node that named the holder where that is not known. It
// waits for the answer for a moment at most, and no longer than ctx.
func (hs *holders) describe(ctx context.Context, e *Error) {
	if hs.recall(e) {
		return
	}
	answered := hs.ask(e)
	if answered == nil {
		return
	}
	moment := time.NewTimer(holderWait)
	defer moment.Stop()
	select {
	case <-answered:
		hs.recall(e)
	case <-moment.C:
	case <-ctx.Done():
	}
}

// prepare asks about the holder that an attempt of a waiting call met, for the error of that call.
// It does not wait, and asks seldom: each attempt may meet another holder.
func (hs *holders) prepare(e *Error) {
	if hs.recall(e) {
		return
	}
	now := hs.clock.Now()
	hs.mu.Lock()
	tooSoon := hs.askedAt != clock.Never && now.Sub(hs.askedAt) < holderPause
	if !tooSoon {
		hs.askedAt = now
	}
	hs.mu.Unlock()
	if !tooSoon {
		hs.ask(e)
	}
}

// recall completes an error by what is known. It reports whether there is no more to ask.
func (hs *holders) recall(e *Error) (complete bool) {
	if e.Holder == "" || e.ours {
		if e.ours {
			e.HolderIdentity = hs.identity
		}
		return true
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	known, found := hs.lockers[scripts.LockerOf(e.Holder)]
	if found && known.identity == (Identity{}) {
		return hs.clock.Now().Before(known.until)
	}
	token, read := hs.tokens[e.Holder]
	if found {
		e.HolderIdentity, e.HolderToken = known.identity, token
	}
	return found && read
}

// ask asks the node that named the holder for the holder's token and identity. The channel that it
// returns is closed when the answers are remembered; it is nil where the node takes no call.
func (hs *holders) ask(e *Error) <-chan struct{} {
	// The replies come in this order.
	pipe, answered := hs.nodes[e.namedBy].Pipe(e.Names[0]), make(chan struct{})
	token := tokenReply{hs, e.Holder}
	if pipe.Start(scripts.Inspect(scripts.NewName(e.Names[0])), nil, token) != nil {
		return nil
	}
	locker := scripts.LockerOf(e.Holder)
	if pipe.Start(scripts.Who([]string{locker}), nil, identityReply{hs, locker, answered}) != nil {
		return nil
	}
	return answered
}

// tokenReply receives the state of the name.
type tokenReply struct {
	holders *holders
	owner   string
}

func (t tokenReply) Done(r pipeline.Result) {
	token := uint64(0)
	if r.Err == nil && r.Reply.Inspect.Owner == t.owner {
		token = r.Reply.Inspect.Token
	}
	hs := t.holders
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.tokens) >= maxHolders {
		clear(hs.tokens)
	}
	hs.tokens[t.owner] = token
}

// identityReply receives the holder's identity. An error, of a user that may not read it perhaps,
// leaves it unknown.
type identityReply struct {
	holders  *holders
	locker   string
	answered chan struct{}
}

func (i identityReply) Done(r pipeline.Result) {
	is := Identity{}
	if r.Err == nil {
		is = Identity(r.Reply.Who[0])
	}
	i.holders.remember(i.locker, is)
	close(i.answered)
}

func (hs *holders) remember(locker string, is Identity) {
	now := hs.clock.Now()
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.lockers) >= maxHolders {
		clear(hs.lockers)
	}
	hs.lockers[locker] = knownLocker{is, now.Add(holderPause)}
}

// identities returns the identities of the owners' lockers, by the owners' ids, as far as they are
// known or a node tells them. read asks the nodes.
func (hs *holders) identities(owners []string, read func(lockers []string) map[string]Identity) map[string]Identity {
	all := map[string]Identity{}
	var missing []string
	hs.mu.Lock()
	for _, owner := range owners {
		locker := scripts.LockerOf(owner)
		if known := hs.lockers[locker]; locker == hs.locker {
			all[locker] = hs.identity
		} else if known.identity != (Identity{}) {
			all[locker] = known.identity
		} else if !slices.Contains(missing, locker) {
			missing = append(missing, locker)
		}
	}
	hs.mu.Unlock()
	if len(missing) > 0 {
		for locker, is := range read(missing) {
			hs.remember(locker, is)
			all[locker] = is
		}
	}
	return all
}
