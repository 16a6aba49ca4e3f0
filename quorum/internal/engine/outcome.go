package engine

import (
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// Outcome is the result of an attempt.
type Outcome struct {
	Approach   waiting.Approach
	Verdict    lease.Verdict
	Cause      lease.Cause
	Need       int
	BegunAt    clock.Instant // zero if no node was asked
	Nodes      []NodeAnswer
	WriteBacks int // how many nodes were asked to raise their counter to the token

	Unlisted  bool // the list of masters is not known: see Refusals, or ctx or the Engine has ended
	Refusals  []error
	Ended     bool  // the context had ended when the attempt was undone
	Closed    bool  // so had the Engine
	ByMaxHold bool  // with lease.TooLate: the max hold was over
	TakesOver bool  // the target has a predecessor
	Reserved  *Hold // whose reservations keep readers back; nil for none
}

// NodeAnswer is one node's answer to an attempt.
type NodeAnswer struct {
	Is        lease.Answer  // by the time the outcome was certain
	Late      lease.Answer  // a later one, while the attempt was undone: Refused, Quarantined, or Unasked for neither
	Err       error         // a *node.Error, or nil
	Wait      time.Duration // of a refusal or quarantine, also a late one: until the node can grant; −1 for a key that never expires
	Holder    string        // of a refusal: the owner that is there
	Listeners int           // of a refusal: connections that subscribe to the channel
	Readers   int           // of a refusal by readers alone: how many
	Reserved  bool          // it refuses a reader, because a writer waits
}

// Count returns how many nodes gave each answer, when the outcome was certain.
func (o *Outcome) Count() (of lease.Counts) {
	for i := range o.Nodes {
		of[o.Nodes[i].Is]++
	}
	return of
}

// Unknown returns how many nodes have neither granted nor refused, and are not in quarantine.
func (o *Outcome) Unknown() int {
	of := o.Count()
	return len(o.Nodes) - of[lease.Granted] - of[lease.Refused] - of[lease.Quarantined]
}

// IsCut reports whether the attempt ended before its outcome was certain.
func (o *Outcome) IsCut() bool { return o.Verdict == lease.Open && !(o.Unlisted && o.Closed) }

// Reason says why there is no quorum.
type Reason uint8

const (
	NoReason      Reason = iota // another one, or none is known
	HeldByAnother               // owner
	Quarantined
	Unavailable

	Reasons = iota
)

// Blocking returns what has to change for the attempt to succeed: HeldByAnother before Quarantined before
// Unavailable. It counts nodes that were not asked, or have not replied, as granting.
func (o *Outcome) Blocking() Reason {
	if o.Unlisted || o.Cause != lease.NoCause || o.Verdict == lease.Won || o.Verdict == lease.Open {
		return NoReason
	}
	of := o.Count()
	willing := of[lease.Granted] + of[lease.Unanswered] + of[lease.Unasked]
	switch {
	case willing+of[lease.Refused] >= o.Need:
		return HeldByAnother
	case willing+of[lease.Refused]+of[lease.Quarantined] >= o.Need:
		return Quarantined
	default:
		return Unavailable
	}
}

// Reason returns the same as Blocking. After a refused take-over, though, it returns HeldByAnother only if a node
// names the holder, and NoReason if nobody has the lock.
func (o *Outcome) Reason() Reason {
	reason := o.Blocking()
	switch holder, _ := o.Holder(); {
	case reason != HeldByAnother || !o.TakesOver:
		return reason
	case !o.HasPassedOn():
		return Unavailable
	case holder == "":
		return NoReason
	}
	return HeldByAnother
}

// HasPassedOn reports whether a take-over can no longer succeed: too few nodes can have the predecessor. Those that
// refused do not have it, and those that granted have replaced it.
func (o *Outcome) HasPassedOn() bool {
	of := o.Count()
	return o.TakesOver && len(o.Nodes)-of[lease.Refused]-of[lease.Granted] < o.Need
}

// Remaining returns how long it takes until a quorum can grant, by the replies of the nodes that refused; −1: never.
// Only nodes that have replied count: after a probe that may be one.
func (o *Outcome) Remaining() time.Duration {
	const forever = time.Duration(math.MaxInt64)
	waits := make([]time.Duration, 0, len(o.Nodes))
	for i := range o.Nodes {
		switch n := &o.Nodes[i]; {
		case n.Is == lease.Granted:
			waits = append(waits, 0)
		case n.Is != lease.Refused:
		case n.Wait < 0:
			waits = append(waits, forever)
		default:
			waits = append(waits, n.Wait)
		}
	}
	if len(waits) == 0 {
		return 0
	}
	if left := quorate.Smallest(min(o.Need, len(waits)), waits); left != forever {
		return left
	}
	return -1
}

// Holder returns the owner that the most nodes named in their refusals, and one of these nodes.
func (o *Outcome) Holder() (holder string, namedBy int) {
	count, most := map[string]int{}, 0
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Is == lease.Refused && n.Holder != "" {
			if count[n.Holder]++; count[n.Holder] > most {
				holder, namedBy, most = n.Holder, i, count[n.Holder]
			}
		}
	}
	return holder, namedBy
}

// ReadersWith returns how many readers hold the name, including this holder: the largest number that a node reports.
// It returns 0 if the holder is not a reader.
func (o *Outcome) ReadersWith(holder string) (count int) {
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Is == lease.Refused && n.Holder == holder {
			count = max(count, n.Readers)
		}
	}
	return count
}

// IsReserved reports whether a node refused because a writer waits.
func (o *Outcome) IsReserved() bool {
	return slices.ContainsFunc(o.Nodes, func(n NodeAnswer) bool { return n.Is == lease.Refused && n.Reserved })
}

// RefusedBy returns who refused the attempt, including refusals that came while it was undone.
func (o *Outcome) RefusedBy() waiting.Refusals {
	r := waiting.Refusals{By: make([]string, len(o.Nodes)), Votes: o.Count()[lease.Granted]}
	for i := range o.Nodes {
		switch n := &o.Nodes[i]; {
		case n.Is != lease.Refused && n.Late != lease.Refused:
			if n.Is == lease.Quarantined || n.Is == lease.Failed || n.Late == lease.Quarantined {
				r.Unable++
			}
		case n.Readers > 0: // they do not keep each other out
			r.By[i] = "readers"
		case n.Holder == "":
			r.By[i] = "a writer that waits"
		default:
			r.By[i] = n.Holder
		}
	}
	return r
}

// IsSplit reports whether the attempt was refused, and nobody is known to hold.
func (o *Outcome) IsSplit() bool {
	count, most, r := map[string]int{}, 0, o.RefusedBy()
	for _, by := range r.By {
		if by != "" {
			count[by]++
			most = max(most, count[by])
		}
	}
	return most < o.Need && (len(count) > 1 || r.Votes > 0)
}

// Result returns the outcome for package waiting.
func (o *Outcome) Result() waiting.Result {
	r := waiting.Result{Held: o.Reason() == HeldByAnother, Wait: -1}
	waits := make([]time.Duration, 0, len(o.Nodes))
	byReaders, byOthers := 0, 0
	for i := range o.Nodes {
		n := &o.Nodes[i]
		r.Listeners = max(r.Listeners, n.Listeners)
		switch n.Is {
		case lease.Granted:
			r.Votes++
			waits = append(waits, 0)
		case lease.Unasked:
			waits = append(waits, 0)
		case lease.Refused, lease.Quarantined:
			if n.Readers > 0 {
				byReaders++
			} else {
				byOthers++
			}
			if n.Wait >= 0 {
				waits = append(waits, n.Wait)
			}
		}
	}
	r.Readers = byReaders > 0 && byOthers == 0
	if len(waits) >= o.Need && o.Verdict != lease.Won { // a won attempt failed for another reason
		r.Wait = quorate.Smallest(o.Need, waits)
	}
	return r
}
