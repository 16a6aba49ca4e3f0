package quorum

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	opHandOver = "hand over"
	opTakeOver = "take over"
)

// HandOver ends the lock here, so that another process can go on with it: it returns a ticket, a text
// for [Locker.TakeOver]. As many nodes as the quorum size confirm a full lease first, unless the lease
// is fixed. Then the contexts of all handles of the lock end with
// [ErrHandedOver], and this process neither renews nor releases it. Its keys stay on the nodes: nobody
// else acquires the lock until they expire, a lease later. Of a fixed lease, the rest is left.
//
// A ticket works once. Whoever has it can take the lock, so give it to nobody else. If nobody uses it,
// the lease ends by itself.
//
// Only the handle that acquired the lock can hand it over. An error is an [*Error], and comes without
// a ticket: the lock is as before. It wraps [ErrUnavailable] if too few nodes confirmed the lease,
// [ErrLost], [ErrNotHeld] or [ErrClosed] if the lock is not held, [ErrInvalid] for the handle of a
// re-entry and for a reader's lock, or the context's error. The hook Released runs.
func (l *Lock) HandOver(ctx context.Context) (ticket string, err error) {
	if l.handle.Level() > 1 {
		return "", invalidf(opHandOver, l.names,
			"the handle entered the lock again: only the one that acquired it hands it over")
	}
	if ended := contextError(ctx); ended != nil {
		return "", &Error{Op: opHandOver, Names: l.names, causes: ended}
	}
	if !l.set.terms.Fixed {
		if err := l.extend(ctx, opHandOver, l.set.terms.Lease); err != nil {
			return "", err
		}
	}
	if handed, before := l.handle.HandOver(); !handed {
		if err := l.unusable(opHandOver, before); err != nil {
			return "", err
		}
		return "", invalidf(opHandOver, l.names, "it is held as a reader: only a writer's lock is handed over")
	}
	l.core.holders.NoteHandedOver(l.Owner())
	l.runReleasedHook()
	return ticketOf(l).String(), nil
}

// TakeOver acquires the lock of a ticket ([Lock.HandOver]) in place of the one that handed it over, in
// one attempt. The new lock has the names of the ticket, a fresh owner, the settings of this Locker,
// and a higher token, so that a resource that compares tokens refuses late writes of the first holder.
// ctx is the parent of its context, as for [Locker.Lock].
//
// The error is an [*Error] that wraps [ErrNotAcquired]. It also wraps [ErrLost] if the lock has passed
// on: the ticket has worked before, the lease has ended, or [Locker.ForceUnlock] took the lock. Then no
// further call with the ticket can succeed. Without ErrLost, it wraps [ErrUnavailable],
// [ErrQuarantined] or the context's error, and another call may succeed until the lease ends. A failed
// call releases what it has taken from the first holder. [ErrInvalid] is for a text that is no ticket,
// and as for Lock; [ErrClosed] for a Locker that was closed.
func (l *Locker) TakeOver(ctx context.Context, ticket string) (*Lock, error) {
	t, err := parseTicket(ticket)
	if err != nil {
		return nil, err
	}
	if err := l.checkStart(ctx, opTakeOver, t.names); err != nil {
		return nil, err
	}
	o := l.core.observe(ctx, l.set, t.names)
	o.attempting()
	lock, r := l.core.attemptOnce(ctx, l.set, target{names: t.names, slots: t.slots, predecessor: &t.owner}, waiting.AskAll)
	if lock == nil {
		r.err.Op = opTakeOver
		o.attempted(nil, r)
		l.core.describeHolder(ctx, r.err)
		return l.report(o, nil, r.err)
	}
	o.attempted(lock, r)
	if lock.Token() <= t.token { // an operator has deleted the counters, say
		lock.handle.Hold().Interrupt()
		return l.report(o, nil, &Error{Op: opTakeOver, Names: t.names, causes: []error{ErrNotAcquired, ErrLost,
			detail("the nodes' token counters are below the ticket's token")}})
	}
	return l.report(o, lock, nil)
}

// passedOn is why a ticket is worthless.
const passedOn detail = "the lock has passed on since it was handed over"

// ticket is a lock that was handed over.
type ticket struct {
	owner scripts.Owner
	token uint64
	names []string
	slots []int // of the semaphore names[0]; nil for a lock that is no slot
}

// ticketVersion is the form of tickets: 1 is the base64url of a JSON object.
const ticketVersion = 1

// ticketText is a ticket on its way. Names are bytes, which need not be UTF-8.
type ticketText struct {
	Version int      `json:"v"`
	Owner   string   `json:"owner"`
	Token   uint64   `json:"token"`
	Names   [][]byte `json:"names"`
	Slots   []int    `json:"slots,omitempty"`
}

func ticketOf(l *Lock) ticket {
	return ticket{owner: l.handle.Hold().Owner(), token: l.Token(), names: l.names, slots: l.slots}
}

func (t ticket) String() string {
	text := ticketText{Version: ticketVersion, Owner: t.owner.String(), Token: t.token, Slots: t.slots}
	for _, name := range t.names {
		text.Names = append(text.Names, []byte(name))
	}
	all, err := json.Marshal(text)
	if err != nil {
		panic(err) // numbers, bytes and the library's own texts
	}
	return base64.RawURLEncoding.EncodeToString(all)
}

// maxOwner bounds an owner's id, as acquire.lua does.
const maxOwner = 1024

func parseTicket(text string) (t ticket, err error) {
	bad := func(why string) (ticket, error) {
		return ticket{}, invalidf(opTakeOver, nil, "the text is no ticket of HandOver: %s", why)
	}
	all, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return bad("it is not base64url")
	}
	var read ticketText
	if json.Unmarshal(all, &read) != nil || read.Version == 0 {
		return bad("it is cut off, or something else")
	}
	switch {
	case read.Version != ticketVersion:
		return bad("it is of another version of this library")
	case read.Owner == "" || len(read.Owner) > maxOwner || read.Token == 0:
		return bad("it names no owner or no token")
	}
	for _, name := range read.Names {
		t.names = append(t.names, string(name))
	}
	if err := checkNames(opTakeOver, t.names); err != nil {
		return ticket{}, err
	}
	if read.Slots != nil && (len(t.names) != 1 || !areSlots(read.Slots)) {
		return bad("its slots are not of one semaphore")
	}
	t.owner, t.token, t.slots = scripts.OwnerOf(read.Owner), read.Token, read.Slots
	return t, nil
}

// areSlots reports whether a lock may have these slots.
func areSlots(numbers []int) bool {
	for i, slot := range numbers {
		if slot < 0 || slot >= scripts.MaxSlots || i > 0 && slot <= numbers[i-1] {
			return false
		}
	}
	return len(numbers) > 0 && len(numbers) <= maxNames
}
