package quorum

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/words"
)

// Answers is what the nodes said, in an [Error].
type Answers struct {
	Quorum      int // the quorum size
	Granted     int
	Refused     int // by nodes on which another owner holds a name, or a waiting writer keeps readers back
	Quarantined int
	// Unknown counts the other nodes: those that had not answered, or failed, and may yet have
	// carried out the request; those that accept clients with another list; and those that were not
	// asked, because the outcome was certain before. The message counts each kind.
	Unknown int

	Nodes *multierror.Error // of hashicorp/go-multierror: a *node.Error for each node that failed; nil when none did

	unasked int  // of Unknown
	kept    bool // Granted counts the nodes that keep a lock that was lost
}

// counts says how many nodes gave each answer.
func (a *Answers) counts(op string) string {
	if a.kept {
		return fmt.Sprintf("kept by %d of %d needed", a.Granted, a.Quorum)
	}
	granted, differ := "granted", a.differing()
	if op == opReady {
		granted = "ready"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s of %d needed", a.Granted, granted, a.Quorum)
	for _, part := range []struct {
		n    int
		what string
	}{
		{a.Refused, "refused"}, {a.Quarantined, "in quarantine"},
		{differ, "with another list"}, {a.Unknown - a.unasked - differ, "unknown"}, {a.unasked, "not asked"},
	} {
		if part.n > 0 {
			fmt.Fprintf(&b, ", %d %s", part.n, part.what)
		}
	}
	return b.String()
}

// nodes returns how many nodes there are.
func (a *Answers) nodes() int { return a.Granted + a.Refused + a.Quarantined + a.Unknown }

// differing returns how many of the unknown nodes accept clients with another list.
func (a *Answers) differing() (count int) {
	for _, err := range a.Nodes.WrappedErrors() { // none of a nil Nodes
		if errors.Is(err, ErrMembership) {
			count++
		}
	}
	return min(count, a.Unknown-a.unasked)
}

// nodesRefuse reports whether fewer nodes than the quorum size are without a permanent error, after an attempt.
func (a *Answers) nodesRefuse() bool {
	if a.Quorum == 0 || a.Nodes == nil || a.kept {
		return false
	}
	nodes := a.nodes()
	for _, err := range a.Nodes.Errors {
		if engine.IsPermanent(err) {
			nodes--
		}
	}
	return nodes < a.Quorum
}

// addNodes adds the nodes' errors, without nil ones.
func (a *Answers) addNodes(errs ...error) {
	for _, err := range errs {
		if err != nil {
			a.Nodes = multierror.Append(a.Nodes, err)
		}
	}
}

// HeldBy is who is in the way of a lock, in an [Error] that wraps [ErrHeld], or of [Locker.TakeOver]; otherwise it is
// zero.
type HeldBy struct {
	// Holder is the id of the owner that most nodes name ([Lock.Owner]; a Redisson client's
	// looks different). With several names: of one of them. With readers: the reader whose lease ends last. It
	// is empty if no node named an owner, or if only a waiting writer is in a reader's way.
	Holder string
	// Remaining is how long a quorum still keeps the lock if its holder does not renew it,
	// counted from the nodes' replies; with fewer replies, how long the nodes that refused keep it. It is −1 (ns) for
	// a key that never expires, and 0 if no node told. If only a waiting writer is in the way, it is how long that
	// writer keeps readers back.
	Remaining time.Duration

	// HolderIdentity says which process the holder is. It is zero if no node knows: for a client of
	// another library, say, or if the call ended before a node was asked.
	HolderIdentity Identity

	key        string // with Holder: the name that it holds on the nodes
	namedBy    int    // with Holder: a node that named it
	ours       bool   // Holder is a lock of this Locker, or of one that With made of it
	handedOver bool   // with ours: by this process
	readers    int    // with Holder, if it is a reader: how many hold the name
	reserved   bool   // only a waiting writer is known to be in the way
}

// process describes the process that is the holder; it returns "" if that is not known.
func (h *HeldBy) process() string {
	switch {
	case h.handedOver:
		return "a ticket of this process (HandOver)"
	case h.ours:
		return "this process"
	case h.HolderIdentity != (Identity{}):
		return h.HolderIdentity.String()
	}
	return ""
}

// knownHolder describes a holder whose process is known.
func (h *HeldBy) knownHolder() string {
	return h.amongReaders(h.process()) + ", " + words.Left(h.Remaining)
}

// unknownHolder describes a holder whose process is not known: its id, and how long it holds; or a reservation. It is
// empty if the process is known, or nothing is known, or its time is over.
func (h *HeldBy) unknownHolder() string {
	what := "; held"
	switch {
	case h.process() != "":
		return ""
	case h.reserved:
		what = "; reserved"
	case h.Holder != "":
		what += " by " + h.amongReaders(fmt.Sprintf("%.64q", h.Holder))
	}
	switch {
	case h.Remaining < 0:
		return what + ", never expires"
	case h.Remaining > 0:
		return fmt.Sprintf("%s for %v more unless renewed", what, h.Remaining)
	}
	return ""
}

// amongReaders describes a holder that is one of several readers.
func (h *HeldBy) amongReaders(holder string) string {
	switch {
	case h.readers == 1:
		return "1 reader, " + holder
	case h.readers > 1:
		return fmt.Sprintf("%s, among them %s", plain.Count(h.readers, "reader"), holder)
	}
	return holder
}
