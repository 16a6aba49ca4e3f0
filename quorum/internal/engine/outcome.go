package engine

import (
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// Outcome is the result of an attempt.
type Outcome struct {
	Kind       Kind
	Approach   waiting.Approach
	Verdict    lease.Verdict
	Cause      lease.Cause
	Quorum     quorate.Rule
	BegunAt    clock.Instant // zero if no node was asked
	Nodes      []NodeAnswer
	WriteBacks int // how many nodes were asked to raise their counter to the token

	Ended     bool    // the context had ended when the attempt was undone
	End       []error // of the context, also while the attempt was undone: see EndOf
	Closed    bool    // so had the Engine
	ByMaxHold bool    // with lease.TooLate: the max hold was over
	TakesOver bool    // the target has a predecessor
	Reserved  *Hold   // whose reservations keep readers back; nil for none
}

// NodeAnswer is one node's answer to an attempt.
type NodeAnswer struct {
	Is        lease.Answer  // by the time the outcome was certain
	Late      lease.Answer  // a later one, while the attempt was undone: Refused, Quarantined, or Unasked for neither
	Err       error         // a *node.Error, or nil
	Wait      time.Duration // of a refusal or quarantine, also a late one: until the node can grant; −1 for a key that never expires
	Holder    string        // of a refusal: the owner that is there; empty if a writer waits, and for a take-over if nobody is
	Listeners int           // of a refusal: connections that subscribe to the channel
	Readers   int           // of a refusal by readers alone: how many
}

// Answers returns the nodes that gave each answer, when the outcome was certain.
func (o *Outcome) Answers() (of lease.Answers) {
	for i := range o.Nodes {
		of[o.Nodes[i].Is] |= quorate.Of(i)
	}
	return of
}

// Unknown returns how many nodes have neither granted nor refused, and are not in quarantine.
func (o *Outcome) Unknown() int {
	of := o.Answers()
	return len(o.Nodes) - (of[lease.Granted] | of[lease.Refused] | of[lease.Quarantined]).Len()
}

// IsCut reports whether the attempt ended before its outcome was certain.
func (o *Outcome) IsCut() bool { return o.Verdict == lease.Open }

// Kind is how an attempt, or a call that acquires, has ended.
type Kind uint8

const (
	Failed Kind = iota // for another reason than those below
	Acquired
	Held        // by another owner
	Quarantined // too many nodes are
	Unavailable // too many nodes are
	Canceled    // the context ended before a reason was known

	Kinds = iota
)

var kindNames = [Kinds]string{"failed", "acquired", "held", "quarantined", "unavailable", "canceled"}

func (k Kind) String() string { return kindNames[k] }

// decide returns the kind of an attempt that failed. A take-over that is refused is Held only if a node names the holder.
func (o *Outcome) decide() Kind {
	holder, _ := o.Holder()
	switch obstacle := o.Obstacle(); {
	case obstacle == Held && o.TakesOver && !o.HasPassedOn():
		return Unavailable
	case obstacle == Held && o.TakesOver && holder == "":
		return Failed
	case obstacle != Failed:
		return obstacle
	case o.Verdict == lease.Won && o.Ended: // too late for the caller
	case o.Cause != lease.NoCause && o.Cause != lease.TooLate: // the token could not be written back
		return Unavailable
	case o.Ended && IsOverdue(o.End): // the outcome was open
		return Unavailable
	}
	return KindOfEnd(o.End)
}

// Obstacle returns what has to change for the attempt to succeed: Held before Quarantined before Unavailable, or Failed
// if that is something else. It counts nodes that were not asked, or have not replied, as granting.
func (o *Outcome) Obstacle() Kind {
	if o.Cause != lease.NoCause || o.Verdict == lease.Won || o.Verdict == lease.Open {
		return Failed
	}
	of := o.Answers()
	willing := of[lease.Granted] | of[lease.Unanswered] | of[lease.Unasked]
	switch {
	case o.Quorum.Enough(willing | of[lease.Refused]):
		return Held
	case o.Quorum.Enough(willing | of[lease.Refused] | of[lease.Quarantined]):
		return Quarantined
	default:
		return Unavailable
	}
}

// HasPassedOn reports whether a take-over can no longer succeed: too few nodes can have the predecessor. Those that
// refused do not have it, and those that granted have replaced it.
func (o *Outcome) HasPassedOn() bool {
	of := o.Answers()
	return o.TakesOver && o.Quorum.Blocks(of[lease.Refused]|of[lease.Granted])
}

// Remaining returns how long it takes until a quorum can grant, by the replies of the nodes that refused; −1: never.
// Only nodes that have replied count: after a probe that may be one.
func (o *Outcome) Remaining() time.Duration {
	waits, longest := make([]time.Duration, len(o.Nodes)), time.Duration(0)
	for i := range o.Nodes {
		switch n := &o.Nodes[i]; n.Is {
		case lease.Granted:
		case lease.Refused:
			waits[i] = n.wait()
			longest = max(longest, waits[i])
		default:
			waits[i] = never
		}
	}
	if left := min(quorate.Smallest(o.Quorum, waits), longest); left != never {
		return left
	}
	return -1
}

const never = time.Duration(math.MaxInt64)

// wait returns how long it takes until a node that refused, or is in quarantine, can grant.
func (n *NodeAnswer) wait() time.Duration {
	if n.Wait < 0 {
		return never
	}
	return n.Wait
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

// RefusedBy returns who refused the attempt, including refusals that came while it was undone.
func (o *Outcome) RefusedBy() waiting.Refusals {
	r := waiting.Refusals{By: make([]string, len(o.Nodes)), Votes: o.Answers()[lease.Granted].Len()}
	for i := range o.Nodes {
		switch n := &o.Nodes[i]; {
		case n.Is != lease.Refused && n.Late != lease.Refused:
			if n.Is == lease.Quarantined || n.Is == lease.Failed || n.Late == lease.Quarantined {
				r.Unable |= quorate.Of(i)
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
	has, holds, r := map[string]quorate.Set{}, false, o.RefusedBy()
	for i, by := range r.By {
		if by != "" {
			has[by] |= quorate.Of(i)
			holds = holds || o.Quorum.Enough(has[by])
		}
	}
	return !holds && (len(has) > 1 || r.Votes > 0)
}

// Result returns the outcome for package waiting.
func (o *Outcome) Result() waiting.Result {
	r := waiting.Result{Held: o.Kind == Held, Wait: -1}
	waits := make([]time.Duration, len(o.Nodes))
	refused, byReaders := 0, 0
	for i := range o.Nodes {
		n := &o.Nodes[i]
		r.Listeners = max(r.Listeners, n.Listeners)
		switch n.Is {
		case lease.Granted:
			r.Votes++
		case lease.Unasked:
		case lease.Refused, lease.Quarantined:
			refused++
			if n.Readers > 0 {
				byReaders++
			}
			waits[i] = n.wait()
		default:
			waits[i] = never
		}
	}
	r.Readers = byReaders > 0 && byReaders == refused
	if wait := quorate.Smallest(o.Quorum, waits); wait != never && o.Verdict != lease.Won { // a won attempt failed for another reason
		r.Wait = wait
	}
	return r
}
