package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/words"
)

var (
	// ErrNotAcquired: the lock was not acquired, and the attempt is undone.
	ErrNotAcquired = engine.ErrNotAcquired
	// ErrHeld: another owner holds the lock, or one of its names. For a reader also: a waiting writer keeps new
	// readers back.
	ErrHeld = errors.New("held by another")
	// ErrQuarantined: too many nodes are in quarantine. They may have forgotten locks, and grant nothing new until
	// it ends.
	ErrQuarantined = engine.ErrQuarantined
	// ErrUnavailable: too many nodes did not reply, or replied with an error.
	ErrUnavailable = errors.New("nodes unavailable")
	// ErrMembership: masters accept only clients with another list of masters than this client's. The errors of the
	// nodes contain both lists.
	ErrMembership = node.ErrMembership
	// ErrPermanent: a retry fails until the program, its settings or the servers are changed. An [*Error] wraps it if
	// the call was refused with [ErrInvalid] or [ErrClosed], or if too many nodes have a permanent error (see
	// [node.Error.Permanent]). Whether to try again is its question, not ErrInvalid's: an Error also wraps the errors
	// of single nodes, and one of them may be ErrInvalid.
	ErrPermanent = errors.New("not retryable")
	// ErrLost: the lock was held, and can no longer be trusted.
	ErrLost = errors.New("lost")
	// ErrNotHeld: this handle of the lock, or the one that acquired it, was unlocked or handed over before.
	ErrNotHeld = errors.New("not held")
	// ErrReleased is the cause of a lock's context after Unlock.
	ErrReleased = errors.New("released")
	// ErrHandedOver is the cause of a lock's context after HandOver.
	ErrHandedOver = errors.New("handed over")
	// ErrClosed: the locker was closed.
	ErrClosed = node.ErrClosed
	// ErrInvalid: an argument or an option is not valid; the message says which and why.
	ErrInvalid = node.ErrInvalid
)

// Error is a failed operation on a lock. It wraps the sentinels that apply ([ErrNotAcquired] with one of [ErrHeld],
// [ErrQuarantined] and [ErrUnavailable] as the reason, for example), the context's error, and its cause, if the context
// ended the operation, and a [*node.Error] for each node that failed. If waiting is pointless it wraps [ErrPermanent].
type Error struct {
	Op    string // "lock", "unlock", "extend", "hold" of a lock that was lost, ...
	Names []string

	Answers
	HeldBy

	causes []error
	kind   engine.Kind // of an attempt, and of a call that acquires
	slots  []int       // of the semaphore Names[0]; nil for a lock that is no slot
	reads  bool        // the lock is, or was to be, a reader's
	split  bool        // several tried at once, and none of them is known to hold the lock
}

// Operations that have texts, or causes, of their own.
const (
	opReady    = "ready"
	opHandOver = "hand over"
	opTakeOver = "take over"
)

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("quorumlock: ")
	if e.Op == opReady {
		b.WriteString("not ")
	}
	b.WriteString(e.Op)
	if len(e.Names) > 0 {
		b.WriteString(" " + words.Quoted(e.Names) + words.Slots(e.slots) + words.Reading(e.reads))
	}
	for _, cause := range e.causes {
		said := strings.TrimPrefix(cause.Error(), "quorumlock: ")
		switch {
		case cause == ErrHeld && e.process() != "":
			said = "held by " + e.knownHolder()
		case cause == ErrHeld && e.reserved:
			said = "a writer waits"
		case cause == ErrQuarantined && e.Nodes != nil:
			said += ", others unavailable"
		case cause == ErrUnavailable && e.differing() > e.nodes()-e.Quorum:
			said = "masters do not accept this client's list"
		}
		b.WriteString(": " + said)
	}
	if e.nodesRefuse() {
		b.WriteString(": " + ErrPermanent.Error())
	}
	switch {
	case e.Quorum == 0 && e.Remaining != 0: // a node says that a semaphore's slots are taken
		b.WriteString(" (" + strings.TrimPrefix(e.unknownHolder(), "; ") + ")")
	case e.Quorum == 0 || e.kept && e.Nodes == nil: // it ended by the clock: the nodes do not matter
	default:
		b.WriteString(" (" + e.counts(e.Op) + e.unknownHolder() + ")")
	}
	if e.Nodes != nil {
		b.WriteString(": " + words.Grouped(e.Nodes.Errors))
	}
	return b.String()
}

// Unwrap returns all that the error wraps.
func (e *Error) Unwrap() []error {
	all := slices.Clone(e.causes)
	if e.Nodes != nil {
		all = append(all, e.Nodes)
	}
	if e.permanent() {
		all = append(all, ErrPermanent)
	}
	return all
}

// permanent reports whether waiting is pointless.
func (e *Error) permanent() bool {
	for _, cause := range e.causes { // but not in e.Nodes: a minority of the nodes may be invalid or closed
		_, nested := cause.(*Error) // why a lock was lost, with its nodes
		if !nested && (errors.Is(cause, ErrInvalid) || errors.Is(cause, ErrClosed)) {
			return true
		}
	}
	return e.nodesRefuse()
}

func invalidf(op string, names []string, format string, args ...any) *Error {
	cause := fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	return &Error{Op: op, Names: slices.Clone(names), causes: []error{cause}}
}

// detail is an explanation in an error, which no caller can match with errors.Is.
type detail string

func (d detail) Error() string { return string(d) }

// clone returns a copy that does not change with e.
func (e *Error) clone() *Error {
	c := *e
	c.causes = slices.Clone(e.causes)
	return &c
}

// noteEnd adds the context's end to the causes, unless they have it.
func (e *Error) noteEnd(ctx context.Context) {
	ended := engine.EndOf(ctx)
	if ended != nil && !slices.ContainsFunc(e.causes, func(cause error) bool { return engine.Same(cause, ended[0]) }) {
		e.addEnd(ended)
	}
}

// addEnd adds what ended the call to the causes.
func (e *Error) addEnd(ended []error) {
	e.causes = append(e.causes, ended...)
	if e.kind == engine.Failed {
		e.kind = engine.KindOfEnd(ended)
	}
}
