package membership

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/scripts"
)

var (
	// ErrDiffers: a node accepts clients with another list of masters.
	ErrDiffers = errors.New("the lists of masters differ")
	// ErrMaxLease: the deployment's max lease is not the client's.
	ErrMaxLease = errors.New("max lease differs")
	// ErrFailover: the deployment's number of replicas is not the client's.
	ErrFailover = errors.New("the number of replicas differs")
)

// DifferentMaxLease returns an error that wraps [ErrMaxLease].
func DifferentMaxLease(deployment, client time.Duration) error {
	return fmt.Errorf("%w: the deployment's is %v, this client's %v", ErrMaxLease, deployment, client)
}

// UnsealedReplicas is what is wrong with a master of a client without a number of replicas.
const UnsealedReplicas = "replicas are attached (%d): if one is promoted, two may hold a lock (node.WithFailover, " +
	"?failover=N in the URL, prevents that); and a resync of this master from its own replica goes unnoticed and loses the " +
	"grants that the replica lacks"

// View is what a look found on a node.
type View struct {
	scripts.Seen
	marker scripts.Marker // of the text; without a member if the text is no marker
	last   time.Duration  // by the node's clock: deadline for marks that follow from this look
}

// Read returns the view from a look. since is the time from the start of this round of looks to the reply: marks that
// follow from the round are written within half a max lease of that start.
func Read(seen scripts.Seen, since time.Duration) *View {
	v := ReadRefusal(seen)
	window := v.Process.MaxLease / 2
	v.last = v.Now + window - clock.Drift(window, clock.DefaultDriftFactor) - since
	return v
}

// ReadRefusal returns the view from a refusal. It does not have the node's clock.
func ReadRefusal(seen scripts.Seen) *View {
	none := scripts.NewList()
	v := &View{Seen: seen, marker: scripts.Marker{Members: none, Next: none}}
	// SWAPDB brings another database's marker, which says nothing of this one: it has forgotten.
	if m, err := scripts.ParseMarker(seen.Marker); err == nil && m.IsInDatabase(v.Process) {
		if m.Generation == 0 && m.Run != v.Process.Run {
			m.Members, m.Next = none, none // see Client.claim
		}
		v.marker = m
	}
	return v
}

// Wrote returns the view after a mark. Further marks have the same deadline.
func (v *View) Wrote(r scripts.MarkReply) *View {
	next := ReadRefusal(scripts.Seen{Process: v.Process, Marker: r.Marker, Now: r.Now})
	next.last = v.last
	return next
}

// IsMarked reports whether the process at the other end is the one in the marker: it has forgotten nothing since.
func (v *View) IsMarked() bool { return v.Seen.Marker != "" && v.marker.Run == v.Process.Run }

// IsBlank reports whether the node grants nothing, and no client has claimed it: it is not marked, or
// its marker has no members, because an operator has admitted it and no client has marked it since. A
// node with the marker of an earlier process still renews what it has kept.
func (v *View) IsBlank() bool { return !v.IsMarked() || v.marker.Members.Len() == 0 }

// MaxLease returns the max lease of the deployment by the node's marker, even if that names
// another process; 0 for none.
func (v *View) MaxLease() time.Duration { return v.marker.MaxLease }

// DiffersInReplicas returns why a client with another number of replicas may not use the node, by its marker, even if that
// names another process; nil if it may. Their runs differ: each would take the other's master for one that has forgotten.
func (v *View) DiffersInReplicas() error {
	if deployment, client := v.marker.Replicas(), v.Process.Replicas(); v.marker.Run != "" && deployment != client {
		return fmt.Errorf("%w: the deployment's is %d, this client's %d (node.WithFailover, ?failover=... in the URL)", ErrFailover, deployment, client)
	}
	return nil
}

// Marker returns the marker; its lists are empty if the node has none.
func (v *View) Marker() scripts.Marker { return v.marker }

// Quarantine returns how long the node grants nothing new; 0 if it is not marked: its quarantine begins when it is
// marked or claimed.
func (v *View) Quarantine() time.Duration {
	if !v.IsMarked() {
		return 0
	}
	return v.marker.Quarantine(v.Now)
}

// ClaimWaits returns how long the claims for a list must wait before they can be confirmed.
func ClaimWaits(views []*View, list *scripts.List) (longest time.Duration) {
	for _, v := range views {
		if v != nil && v.Relation(list) == Claimed {
			longest = max(longest, v.Quarantine())
		}
	}
	return longest
}

// Write returns the call that writes a marker in place of the one that was seen, in the process that
// was seen.
func (v *View) Write(m scripts.Marker, admitted, change scripts.When) scripts.Call {
	return scripts.Mark(v.Seen, m, admitted, change, v.last)
}

// Rewrite returns the call that writes another marker, and keeps the node's own instants.
func (v *View) Rewrite(m scripts.Marker) scripts.Call {
	return v.Write(m, scripts.At(m.Admitted), scripts.At(m.Change))
}

// Has reports whether a node's marker has that list: it accepts clients with it, or did before it came back blank or this
// client had another max lease, or is being marked for it.
func (v *View) Has(list *scripts.List) bool {
	return v.marker.Members.Equal(list) || v.marker.Next.Equal(list)
}

// Announced reports whether a node that does not accept the list has come back during a change to it, and nobody has marked
// it since. It then waits for a client with the previous list, which is returned.
func (v *View) Announced(list *scripts.List) (before *scripts.List, found bool) {
	return v.marker.Members, v.marker.Next.Equal(list)
}

// HadAnother reports whether a blank node has come back with a marker that accepted other clients, or is claimed for
// such, but not for those with that list. They may not found their deployment with it.
func (v *View) HadAnother(list *scripts.List) bool {
	return v.marker.Members.Len() > 0 && !v.Has(list)
}

// isAdded reports whether an operator has claimed a node, to add it to that list, or has admitted one that is being added.
// A client with the next list would retire it.
func (v *View) isAdded(to *scripts.List) bool {
	return v.IsMarked() && v.marker.Members.Equal(to) && !to.Has(v.marker.Member)
}

// Relation is what a node makes of a client's list of masters.
type Relation int

const (
	// Blank: the node has forgotten whom it accepts, or has never known, or is claimed for another list: it grants nothing.
	Blank Relation = iota + 1
	// Claimed: a client with the same list is marking all blank members. It accepts nobody yet.
	Claimed
	// Accepts: the list has exactly the members, or the next members.
	Accepts
	// Refuses: the node belongs to another deployment, is another member, or accepts another list.
	Refuses
)

// Relation returns the node's relation to clients with that list.
func (v *View) Relation(list *scripts.List) Relation {
	m := v.marker
	switch {
	case v.DiffersInReplicas() != nil:
		return Refuses
	case !v.IsMarked():
		return Blank
	case m.MaxLease != v.Process.MaxLease:
		return Refuses
	case m.Members.Len() == 0:
		return Blank // an operator has admitted it, and no client has marked it
	case m.Member != v.Process.Member:
		return Refuses
	case m.Claimed && v.Has(list):
		return Claimed
	case m.Claimed:
		return Blank // see HadAnother
	case !v.Has(list):
		return Refuses
	default:
		return Accepts
	}
}

// IsAnotherMember reports whether the node says that it is a different member of the list from the one that the
// client takes it for.
func (v *View) IsAnotherMember(list *scripts.List) bool {
	return v.marker.Member != v.Process.Member && list.Has(v.marker.Member)
}

// Refusal returns why a node that Refuses does not accept a client with that list.
func (v *View) Refusal(list *scripts.List) error {
	m := v.marker
	switch err := v.DiffersInReplicas(); {
	case err != nil:
		return err
	case m.MaxLease != v.Process.MaxLease:
		return DifferentMaxLease(m.MaxLease, v.Process.MaxLease)
	case m.Member != v.Process.Member && (list.Has(m.Member) || v.Has(list)): // otherwise the lists say enough, the same on each
		return fmt.Errorf("%w: this master is the member %s of %s, and %s to this client, whose list is %s%s",
			ErrDiffers, m.Member, m.Members, v.Process.Member, list, sameNames)
	}
	whom := fmt.Sprintf("accepts clients with %s (generation %d)", m.Members, m.Generation)
	hint := ""
	switch {
	case m.Claimed:
		whom = fmt.Sprintf("is being marked for clients with %s", m.Members)
		if m.Members.Has(m.Member) { // else members add has begun
			hint = ". A client whose list most masters have marks it; or quorumlock admit -members does, if what it asserts is true"
		}
	case m.Generation > 1:
		hint = ". The list was changed: give this client the new one, or, if it has that already, announce it first (quorumlock members)"
	}
	next := ""
	if m.Next.Len() > 0 {
		next = fmt.Sprintf(", and %s next", m.Next)
	}
	if m.Members.Len() == list.Len() {
		hint += sameNames
	}
	if name := cmp.Or(m.Members.Twice(), m.Next.Twice()); name != "" { // no client has such a list: one master is one vote
		hint = fmt.Sprintf(". The list has %s twice, in two spellings: quorumlock admit -members gives this master another", name)
	}
	return fmt.Errorf("%w: this master %s%s, this client's list is %s%s", ErrDiffers, whom, next, list, hint)
}

const sameNames = ". If these are the same masters by other addresses, give every client the same names: " +
	"?name=... in the URL, or node.WithName"

// IsMajority reports whether a majority of the list's members is among the names.
func IsMajority(list *scripts.List, names []string) bool {
	var among quorate.Set
	for i, member := range list.Names() {
		if slices.Contains(names, member) {
			among |= quorate.Of(i)
		}
	}
	return quorate.Majority(list.Len()).Enough(among)
}
