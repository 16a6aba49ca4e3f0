package quorum

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/scripts"
)

// Locker locks names on its nodes. It is safe for concurrent use.
type Locker struct {
	embedded
	engine *engine.Engine
	room   *waitingRoom
	meter  *meter
	end    func() // of Close; it does something once

	set   *settings
	reads *Locker // whose locks are readers'; nil in that one
	bad   error   // why With refused its options; every call returns it
}

// ID returns the Locker's UUID, the first part of its owners' ids (see [Lock.Owner]). Lockers that
// [Locker.With] makes of it have the same one.
func (l *Locker) ID() string { return l.engine.UUID }

// Identity returns which process the Locker belongs to, as it writes to the masters while it holds
// locks.
func (l *Locker) Identity() Identity { return Identity(l.engine.Identity) }

// Nodes returns the names of the nodes, in the Locker's order (see [node.Node.Name]).
func (l *Locker) Nodes() []string {
	names := make([]string, len(l.engine.Nodes))
	for i, n := range l.engine.Nodes {
		names[i] = n.Name()
	}
	return names
}

// String names the masters, for people. The form may change.
func (l *Locker) String() string {
	return "locker over " + strings.Join(l.Nodes(), ", ")
}

// CheckNames returns the error with which [Locker.Lock] would refuse the names at once, or nil. It asks no node. The
// error wraps [ErrInvalid] for names that cannot be locked and for options that [Locker.With] refused, and
// [ErrClosed] for a closed Locker.
func (l *Locker) CheckNames(names ...string) error { return l.refuse("lock", names) }

// checkStart returns why a call for the names is refused before any node is asked, or nil.
func (l *Locker) checkStart(ctx context.Context, op string, names []string) error {
	return cmp.Or(l.refuse(op, names), endedError(ctx, op, names))
}

// endedError returns the error of a call whose context has ended before, or nil.
func endedError(ctx context.Context, op string, names []string) error {
	ended := engine.EndOf(ctx)
	if ended == nil {
		return nil
	}
	return &Error{Op: op, Names: slices.Clone(names), causes: append([]error{ErrNotAcquired}, ended...)}
}

// refuse returns why this Locker cannot serve the names, or nil.
func (l *Locker) refuse(op string, names []string) error {
	return cmp.Or(l.unusable(op, names), checkNames(op, names))
}

// unusable returns why this Locker cannot serve any names, or nil.
func (l *Locker) unusable(op string, names []string) error {
	if l.bad != nil {
		return &Error{Op: op, Names: slices.Clone(names), causes: []error{l.bad}}
	}
	if l.engine.IsClosed() {
		e := &Error{Op: op, Names: slices.Clone(names), causes: []error{ErrClosed}}
		if op == "lock" || op == opTakeOver {
			e.causes = slices.Insert(e.causes, 0, ErrNotAcquired)
		}
		return e
	}
	return nil
}

const maxNameLen = 4096

// checkNames returns why the names cannot be locked, or nil.
func checkNames(op string, names []string) error {
	switch {
	case len(names) == 0:
		return invalidf(op, names, "no names")
	case len(names) > scripts.MaxNames:
		return invalidf(op, names, "%d names are more than %d", len(names), scripts.MaxNames)
	}
	for i, name := range names {
		switch {
		case name == "":
			return invalidf(op, names, "name %d is empty", i+1)
		case len(name) > maxNameLen:
			return invalidf(op, names, "name %d has %d bytes, more than %d", i+1, len(name), maxNameLen)
		case scripts.Reserved(name) != "":
			return invalidf(op, names, "name %d begins with %q, which is for the library's own keys",
				i+1, scripts.Reserved(name))
		case slices.Contains(names[:i], name):
			return invalidf(op, names, "name %d is given twice", i+1)
		}
	}
	return nil
}

// unattempted returns the error of a call of Lock that ends before its first attempt.
func unattempted(e *engine.Engine, kind engine.Kind) *Error {
	failure := &Error{Op: "lock", kind: kind, causes: []error{ErrNotAcquired},
		Answers: Answers{Quorum: e.Quorum.Need, Unknown: len(e.Nodes)}}
	if reason := sentinels[kind]; reason != nil {
		failure.causes = append(failure.causes, reason)
	}
	return failure
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	crand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
