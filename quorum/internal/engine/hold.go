package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// Terms are what the holds of one Locker have in common. They do not change.
type Terms struct {
	lease.Terms
	Millis scripts.Millis // the same as Lease
	Events Events
}

// Events receives what happens to holds. Its methods must lock no hold, and except Lost must not
// block. They may be called with the mutex of the hold locked.
type Events interface {
	// Ending returns the error with which the contexts of a hold end.
	Ending(h *Hold, why Ending) error
	// Lost runs in a goroutine of its own, when the contexts of a hold that was lost have ended.
	Lost(h *Hold, why error)
	// Renewing: a hold's renewals go out. The hold is valid for left if no node confirms.
	Renewing(h *Hold, left time.Duration)
	// Renewed: a node has replied to the renewals of holds with these Events.
	Renewed(node int, r Renewals)
	// Repaired: a node has replied to a repair, or could not be asked.
	Repaired(h *Hold, node int, err error)
}

// Hold is one owner's lease with its requests and replies: it tells the lease what happens, and carries
// out the lease's commands. Every attempt has a fresh owner, so a late rollback never deletes a vote that
// another attempt has counted.
type Hold struct {
	engine *Engine
	terms  *Terms
	owner  scripts.Owner
	names  []scripts.Name
	list   *scripts.List // of masters; nil while it is not known
	// predecessor is the owner that this one takes over from; nil for none, and once it is released.
	predecessor *scripts.Owner
	first       Handle                // of depth 1
	parent      context.Context       // of the first handle's context
	entry       schedule.Entry[*Hold] // in the schedule, while it is held

	// mu orders the owner's requests: the lease's commands are carried out with mu held.
	mu        sync.Mutex
	lease     lease.Lease
	members   []member
	inner     []*Handle // of depths above 1. Invariant: one for each, while it is held
	ended     error     // of Events.Ending, or nil. Invariant: not nil once the lock has ended
	postponed bool      // its renewal is due at entry.At, and is not put off again
	attempt   *attempt  // Invariant: nil once it has become a lock

	// Room for the usual numbers: see few.
	room struct {
		votes   [usualNodes]lease.Vote
		members [usualNodes]member
		release Tally // by the handle that acquired the lock
	}
}

const usualNodes = 5

// few returns n zero values, in the room if they are no more than there is room for: one allocation less for each lock.
func few[T any](room []T, n int) []T {
	if n > len(room) {
		return make([]T, n)
	}
	return room[:n]
}

// Handle is one entry into a hold: the first acquired the lock, the others entered it again.
type Handle struct {
	hold     *Hold
	ctx      context.Context // nil for a lock that has not been held
	cancel   context.CancelCauseFunc
	depth    int
	unlocked atomic.Bool
}

// makeContext makes the handle's context. It runs code of the caller's, and so does EndContext: no mutex is locked then.
func (l *Handle) makeContext(parent context.Context) {
	l.ctx, l.cancel = context.WithCancelCause(parent)
}

// EndContext ends the handle's context, of a lock that is held or was to be held.
func (l *Handle) EndContext(why error) { l.cancel(why) }

// Ending is why a hold has ended, or its contexts before it.
type Ending struct {
	Cause     lease.Cause
	Keepers   Keepers // of a hold that was lost, or is Stopping
	ByMaxHold bool    // the max hold ends it
}

// Keepers counts the nodes that keep an acquired lock.
type Keepers struct {
	Kept, Unknown int     // nodes that keep it, and nodes that may not
	Errs          []error // of the nodes' last replies: a *node.Error, or nil
	Reader        bool
}

func (h *Hold) keepersLocked() Keepers {
	kept := h.lease.KeepersAt(h.engine.Clock.Now()).Len()
	k := Keepers{Kept: kept, Unknown: len(h.members) - kept, Reader: h.lease.Mode() == lease.Read}
	for i := range h.members {
		k.Errs = append(k.Errs, h.members[i].err)
	}
	return k
}

// LastErrors returns the error of each node's last reply: a *node.Error, or nil.
func (h *Hold) LastErrors() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keepersLocked().Errs
}

// member is one node's part in a hold.
type member struct {
	err       error              // of the node's last reply, or nil
	footprint pipeline.Footprint // what the owner's requests may have left on the node
	alone     bool               // the node refused a batch with it: it is renewed alone until a renewal succeeds
}

// Init makes a hold of the names, which do not change. It asks for nothing yet. predecessor is the owner to take over from;
// nil for none. parent is that of the first handle's context.
func (h *Hold) Init(e *Engine, terms *Terms, names []scripts.Name, predecessor *scripts.Owner, parent context.Context) {
	h.engine, h.terms, h.names, h.predecessor, h.parent = e, terms, names, predecessor, parent
	h.owner = e.newOwner()
	h.lease.Init(&terms.Terms, few(h.room.votes[:], len(e.Nodes)))
	h.entry.Owner = h
	h.first.hold, h.first.depth = h, 1
	h.members = few(h.room.members[:], len(e.Nodes))
}

// InitHeld makes a hold that is held for a year, on no nodes: for tests of code that is given a lock. It is called after Init.
func (h *Hold) InitHeld(token uint64) {
	h.lease.InitHeld(token, h.engine.Clock.Now().Add(365*24*time.Hour))
	h.first.makeContext(h.parent)
}

// First returns the handle that acquired the lock.
func (h *Hold) First() *Handle { return &h.first }

// Owner returns the owner, as it stands on the nodes.
func (h *Hold) Owner() scripts.Owner { return h.owner }

// Token returns the fencing token. It does not change once the hold is held.
func (h *Hold) Token() uint64 { return h.lease.Token() }

// Key returns the first of the names.
func (h *Hold) Key() string { return h.names[0].String() }

// pipe returns the pipeline to a node that carries all the hold's calls, in order.
func (h *Hold) pipe(node int) *pipeline.Pipe { return h.engine.pipe(node, h.Key()) }

// carryOutLocked carries out commands in their order, and those that follow if one cannot be sent.
// t counts the replies for a caller who waits for them; nil for none. It stops after End: the
// caller unlocks mu, calls endContexts, and then carries out the rest. It does not carry out Renew,
// which renewalBatches take, nor Submit, which needs no mutex.
func (h *Hold) carryOutLocked(commands []lease.Command, t *Tally) (rest []lease.Command) {
	var call scripts.Call // the same for all nodes
	for i := 0; i < len(commands); i++ {
		c := commands[i]
		isNew := i == 0 || c.Do != commands[i-1].Do
		switch c.Do {
		case lease.Decided:
			close(h.attempt.decided)
		case lease.Stop:
			h.stopLocked()
		case lease.End:
			h.noteEndLocked(c.Cause)
			return commands[i+1:]
		case lease.Release:
			if isNew {
				call = scripts.Release(h.names, h.ownerAs(c.Mode), c.Depth)
			}
			if c.Depth == 0 {
				h.releasePredecessorLocked()
			}
			h.sendRelease(c, call, t)
		case lease.Ask, lease.Enter, lease.Repair, lease.Raise, lease.Extend:
			r := h.requestLocked(c, t)
			if isNew {
				call = r.call()
			}
			if err := r.startLocked(call); err != nil {
				commands = r.noteUnsentLocked(err, commands)
			}
		default:
			panic(fmt.Sprintf("quorumlock: nothing carries out the lease's command %d", c.Do)) // a new one
		}
	}
	return nil
}

// tell tells the lease of an event, and carries out what follows.
func (h *Hold) tell(event func(out []lease.Command) []lease.Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.carryOutLocked(event(nil), nil)
}

func (h *Hold) carryOut(commands []lease.Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.carryOutLocked(commands, nil)
}

// requestLocked returns the request that carries a command to its node.
func (h *Hold) requestLocked(c lease.Command, t *Tally) *request {
	if c.Do != lease.Ask {
		return &request{hold: h, command: c, tally: t}
	}
	r := &h.attempt.requests[c.Master].request
	r.command = c
	return r
}

// renewal returns the lock's part of a call that renews several.
func (h *Hold) renewal() scripts.Renewal {
	return scripts.Renewal{Names: h.names, Owner: h.ownerAs(h.lease.Mode()), Token: h.lease.Token()}
}

// ownerAs returns the owner as nodes know it in that mode.
func (h *Hold) ownerAs(mode lease.Mode) scripts.Owner {
	if mode == lease.Read {
		return h.owner.AsReader()
	}
	return h.owner
}

// grantCall returns a request for a grant in that mode.
func (h *Hold) grantCall(mode lease.Mode, args scripts.AcquireArgs) scripts.Call {
	args.Names, args.Owner, args.List = h.names, h.ownerAs(mode), h.list
	if mode == lease.Read {
		return scripts.Read(args)
	}
	args.Predecessor = h.predecessor
	return scripts.Acquire(args)
}

// noteEndLocked notes that the lease has ended. Ending a context runs the caller's code, which may
// block or call this package. So it happens with no mutex locked, and no lock waits for another's
// contexts. The goroutine that unlocks a lock or hands it over ends them. If the lock is lost, or the
// Locker closed, a new one does.
func (h *Hold) noteEndLocked(why lease.Cause) {
	if h.ended != nil { // it was closed or unlocked before, and endContexts may be reading
		return
	}
	e, isLost := Ending{Cause: why}, why != lease.Unlocked && why != lease.HandedOver && why != lease.Closed
	if isLost {
		e.Keepers = h.keepersLocked()
	}
	h.ended = h.terms.Events.Ending(h, e)
	switch {
	case isLost:
		h.engine.background.start(h.finishLost)
	case why == lease.Closed:
		h.engine.background.start(h.endContexts)
	}
}

// stopLocked ends the contexts of the present handles while the lock is held. Enter adds none after it.
func (h *Hold) stopLocked() {
	why := h.terms.Events.Ending(h, Ending{Cause: lease.Stopping, Keepers: h.keepersLocked(), ByMaxHold: h.lease.EndedByMaxHold()})
	handles := append([]*Handle{&h.first}, h.inner...)
	for _, l := range handles { // each alone: a context of the caller's may block
		h.engine.background.start(func() { l.EndContext(why) })
	}
}

// endContexts ends the contexts of all handles, after the lease has ended: no handle is added then. If
// two goroutines end them, they have ended when the first returns.
func (h *Hold) endContexts() {
	for _, inner := range h.inner {
		defer inner.EndContext(h.ended) // even if a context of the caller's panics
	}
	h.first.EndContext(h.ended)
}

// finishLost ends the contexts of a lost lock, and only then releases what nodes still keep of it:
// another owner may be granted it at once. It runs in a goroutine of its own, because a context, a log
// or a hook may block, or call this package.
func (h *Hold) finishLost() {
	h.endContexts()
	h.engine.schedule.Remove(&h.entry) // no renewal is on its way to a pipeline then
	h.tell(h.lease.Drop)
	h.terms.Events.Lost(h, h.ended)
}

// Interrupt releases a hold after the caller's code (a hook, a context) has panicked or ended
// its goroutine. It waits for no reply, and does nothing if the hold has ended.
func (h *Hold) Interrupt() {
	h.engine.schedule.Remove(&h.entry)
	if releases := h.interrupt(); releases != nil {
		defer h.carryOut(releases) // even if a context of the caller's panics again
		h.endContexts()
	}
}

// interrupt ends the lease. It returns what is left to carry out when the contexts have ended.
func (h *Hold) interrupt() []lease.Command {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.IsDone() {
		return nil
	}
	h.first.unlocked.Store(true)
	return h.carryOutLocked(h.lease.Interrupt(nil), nil)
}
