package operator

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/internal/words"
	"github.com/quorumlock/quorumlock/scripts"
)

// Status is the nodes' state of a name.
type Status struct {
	Name  string
	Slot  int    // of the semaphore of that name; −1 for a lock that is no slot
	Owner string // that a quorum keeps; empty for none
	// Identity is which process the owner is; zero if no node knows, or for no owner.
	Identity quorum.Identity
	Depth    int           // of that owner, on a node that it has
	Token    uint64        // the highest token counter on any node: at least the name's last token, since names share counters
	TTL      time.Duration // how long a quorum keeps that owner, by the nodes' clocks; −1: never expires
	// Readers is the least number of readers that a quorum has. They have no Owner; TTL is the last reader's.
	Readers int
	// WriterWaits reports that a waiting writer keeps new readers back.
	WriterWaits bool
	Nodes       []NodeStatus // in the Locker's order
	isUnknown   bool         // nodes that do not answer, or may have forgotten it, could make it held
}

// NodeStatus is one node's state of a name.
type NodeStatus struct {
	Node        string
	Err         error           // a *node.Error, or nil; with an error the fields below are zero
	Owner       string          // empty when the name is free there, or readers have it
	Identity    quorum.Identity // of the owner; zero if no node knows it
	Depth       int             // as the key has it; the handle's own count decides
	TTL         time.Duration   // −1 when the key never expires
	Token       uint64          // the token counter, which other names share
	Quarantine  time.Duration   // left
	Readers     int             // that hold the name there
	Reservation time.Duration   // how long a waiting writer keeps new readers back; 0 for none
}

// ownerText names an owner, with its process if that is known.
func ownerText(owner string, is quorum.Identity) string {
	if is == (quorum.Identity{}) {
		return fmt.Sprintf("%.64q", owner)
	}
	return fmt.Sprintf("%v as %.64q", is, owner)
}

// String says who holds the name, and then what each node replied, for people. The form may change.
func (s Status) String() string {
	var b strings.Builder
	b.WriteString(words.Quoted([]string{s.Name}))
	if s.Slot >= 0 {
		b.WriteString(words.Slots([]int{s.Slot}))
	}
	switch {
	case s.Readers > 0:
		fmt.Fprintf(&b, " is held by %s, %s", plain.Count(s.Readers, "reader"), words.Left(s.TTL))
	case s.Owner != "":
		fmt.Fprintf(&b, " is held by %s, %s", ownerText(s.Owner, s.Identity), words.Left(s.TTL))
	case s.isUnknown:
		b.WriteString(" may be held: too few nodes can tell")
	default:
		b.WriteString(" is free")
	}
	if s.WriterWaits {
		b.WriteString(", a writer waits")
	}
	fmt.Fprintf(&b, ", token at most %d", s.Token)
	for _, n := range s.Nodes {
		b.WriteString("; " + n.String())
	}
	return b.String()
}

// String says what the node replied, for people. The form may change.
func (n NodeStatus) String() string {
	if n.Err != nil {
		return n.Err.Error()
	}
	text := fmt.Sprintf("node %s: free", n.Node)
	switch {
	case n.Readers > 0:
		text = fmt.Sprintf("node %s: %s, %s", n.Node, plain.Count(n.Readers, "reader"), words.Left(n.TTL))
	case n.Owner != "":
		text = fmt.Sprintf("node %s: %s, depth %d, %s", n.Node, ownerText(n.Owner, n.Identity), n.Depth, words.Left(n.TTL))
	}
	if n.Reservation > 0 {
		text += fmt.Sprintf(", a writer keeps new readers back for %v", n.Reservation)
	}
	text += fmt.Sprintf(", token counter %d", n.Token)
	if n.Quarantine > 0 {
		text += fmt.Sprintf(", in quarantine for another %v", n.Quarantine)
	}
	return text
}

// statusOf combines the nodes' states of a name.
func statusOf(name string, masters []lockstate.Master, rule quorate.Rule) Status {
	lock := lockstate.Judge(name, masters, rule)
	slot := -1
	if semaphore, number, isSlot := scripts.ParseSlot(name); isSlot {
		name, slot = semaphore, number
	}
	state := Status{Name: name, Slot: slot, Owner: lock.Owner, Identity: quorum.Identity(lock.Identity), Depth: lock.Depth,
		Token: lock.Token, TTL: lock.TTL, Readers: lock.Readers, WriterWaits: lock.WriterWaits,
		isUnknown: lock.State == lockstate.Unknown}
	for _, m := range masters {
		state.Nodes = append(state.Nodes, NodeStatus{Node: m.Node, Err: m.Err, Owner: m.Owner, Identity: quorum.Identity(m.Identity),
			Depth: m.Depth, TTL: m.TTL, Token: m.Token, Quarantine: m.Quarantine,
			Readers: m.Readers, Reservation: m.Reservation})
	}
	return state
}
