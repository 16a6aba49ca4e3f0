package quorum

import (
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// hold is the shell of one owner's lease: it tells the lease what happens, and carries out the
// lease's commands. Every attempt has a fresh owner, so a late rollback never deletes a vote that
// another attempt has counted.
type hold struct {
	core  *core
	set   *settings
	owner scripts.Owner
	names []scripts.Name
	one   [1]scripts.Name // room for the usual number of names
	list  *scripts.List   // of masters; nil while it is not known
	// predecessor is the owner that this one takes over from; nil for none.
	predecessor *scripts.Owner
	first       Lock                  // the handle of level 1
	entry       schedule.Entry[*hold] // in the schedule, while it is held

	// mu orders the owner's requests: the lease's commands are carried out with mu held.
	mu        sync.Mutex
	lease     lease.Lease
	members   []member
	inner     []*Lock   // handles of levels above 1
	ended     error     // why the lease has ended, and its contexts with it; nil before
	listener  *listener // of requests to let go; nil before the first call of Requested
	postponed bool      // its renewal is due at entry.At, and is not put off again
	attempt   *attempt  // nil once it has become a lock
}

// member is one node's part in a hold.
type member struct {
	hold      *hold
	node      int
	err       error              // of the node's last reply, or nil
	footprint pipeline.Footprint // what the owner's requests may have left on the node
	alone     bool               // the node refused a batch with it: it is renewed alone until a renewal succeeds
}

func newHold(c *core, set *settings, names []string) *hold {
	var h *hold
	var votes []lease.Vote
	if n := len(c.nodes); n == 3 { // the usual number: one allocation for all
		all := new(struct {
			hold
			votes   [3]lease.Vote
			members [3]member
		})
		h, votes = &all.hold, all.votes[:]
		h.members = all.members[:]
	} else {
		h, votes = &hold{members: make([]member, n)}, make([]lease.Vote, n)
	}
	h.core, h.set, h.owner, h.list = c, set, c.newOwner(), c.roster.List()
	h.lease.Init(&set.terms, votes)
	h.setNames(names)
	h.entry.Owner = h
	for i := range h.members {
		h.members[i] = member{hold: h, node: i}
	}
	return h
}

func (h *hold) setNames(names []string) {
	h.names = h.one[:0]
	for _, name := range names {
		h.names = append(h.names, scripts.NewName(name))
	}
}

// pipe returns the pipeline to a node that carries all the hold's calls, in order.
func (h *hold) pipe(node int) *pipeline.Pipe {
	return inside.Of(h.core.nodes[node]).Pipe(h.names[0].String())
}

// validLocked reports whether the hold is held by the clock, which it reads.
func (h *hold) validLocked() bool { return h.lease.Valid(h.core.clock.Now()) }

// carryOutLocked carries out commands in their order, and those that follow if one cannot be sent. t
// counts the replies for a caller who waits for them; nil for none. Behind End it stops: the caller
// unlocks mu, calls endContexts, and carries out the rest then. It does not carry out Renew, which
// renewalBatches take, nor Submit, which needs no mutex.
func (h *hold) carryOutLocked(commands []lease.Command, t *tally) (rest []lease.Command) {
	var call scripts.Call // the same for all nodes
	for i := 0; i < len(commands); i++ {
		c := commands[i]
		isNew := i == 0 || c.Do != commands[i-1].Do
		switch c.Do {
		case lease.Decided:
			close(h.attempt.decided)
		case lease.End:
			h.noteEndLocked(c.Cause)
			return commands[i+1:]
		case lease.Release:
			if isNew {
				call = scripts.ReleaseIn(t.takeRoom(), h.names, h.ownerAs(c.Mode), c.Level)
			}
			h.sendRelease(c, call, t)
		default:
			r := h.requestLocked(c, t)
			if isNew {
				call = r.call()
			}
			if err := r.startLocked(call); err != nil {
				commands = r.noteUnsentLocked(err, commands)
			}
		}
	}
	return nil
}

func (h *hold) carryOut(commands []lease.Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.carryOutLocked(commands, nil)
}

// requestLocked returns the request that carries a command to its node.
func (h *hold) requestLocked(c lease.Command, t *tally) *request {
	if c.Do != lease.Ask {
		return &request{hold: h, command: c, tally: t}
	}
	r := &h.attempt.requests[c.Master].request
	r.command = c
	return r
}

// renewal returns the lock as one of those that a call renews.
func (h *hold) renewal(lasts scripts.Millis) scripts.Renewal {
	return scripts.Renewal{Names: h.names, Owner: h.ownerAs(h.lease.Mode()), Token: h.lease.Token(), Lease: lasts}
}

// ownerAs returns the owner as the nodes know it that holds in that mode.
func (h *hold) ownerAs(mode lease.Mode) scripts.Owner {
	if mode == lease.Read {
		return h.owner.AsReader()
	}
	return h.owner
}

// grantCall returns a request for a grant in that mode.
func (h *hold) grantCall(mode lease.Mode, args scripts.AcquireArgs) scripts.Call {
	args.Names, args.Owner, args.List = h.names, h.ownerAs(mode), h.list
	if mode == lease.Read {
		return scripts.Read(args)
	}
	args.Predecessor = h.predecessor
	return scripts.Acquire(args)
}

// noteEndLocked notes that the lease has ended. To end a context runs the caller's code, which may
// block, or call this package: so it is done with no mutex locked, and no lock waits for another's
// contexts. The goroutine that unlocks a lock or hands it over ends them. If the lock is lost, or the
// Locker closed, a new one does.
func (h *hold) noteEndLocked(why lease.Cause) {
	h.unlistenLocked()
	switch why {
	case lease.Unlocked:
		if h.ended == nil { // else it was closed or unlocked before, and endContexts may be reading
			h.ended = ErrReleased
		}
	case lease.HandedOver:
		h.ended = ErrHandedOver
	case lease.Closed:
		h.ended = ErrClosed
		h.core.background.start(h.endContexts)
	default:
		h.ended = h.keepersErrorLocked("hold", ErrLost, h.whyLost(why))
		h.core.counters.lost.Add(1)
		h.core.background.start(h.finishLost)
	}
}

// endContexts ends the contexts of all handles, after the lease has ended: no handle is added then. If
// another goroutine is about to end them, too, they have ended when the first of them returns.
func (h *hold) endContexts() {
	for _, l := range h.inner {
		defer l.cancel(h.ended) // also if a context of the caller's panics
	}
	h.first.cancel(h.ended)
}

// whyLost explains why a lock was lost.
func (h *hold) whyLost(why lease.Cause) detail {
	switch why {
	case lease.MaxHoldOver:
		return detail(fmt.Sprintf("its max hold of %v is over", h.set.maxHold))
	case lease.NotKept:
		return "too few nodes keep it"
	case lease.LeaseOver:
		return "its lease is over"
	case lease.NotConfirmed:
		return "too few nodes confirmed a renewal in time"
	default:
		return "the deadline has passed"
	}
}

// keepersErrorLocked returns the error of an operation on a lock that was acquired. It counts the
// nodes that still keep it.
func (h *hold) keepersErrorLocked(op string, causes ...error) *Error {
	e := &Error{Op: op, Names: h.first.names, slots: h.first.slots, reads: h.lease.Mode() == lease.Read,
		Need: h.core.need, causes: causes, kept: true}
	now := h.core.clock.Now()
	for i := range h.members {
		if now.Before(h.lease.Until(i)) {
			e.Granted++
		} else {
			e.Unknown++
		}
	}
	e.Nodes = h.nodesErrorLocked()
	return e
}
