package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// Client is a client that may mark blank nodes.
type Client struct {
	List       *scripts.List
	Found      bool                         // it may found a deployment: mark nodes that know of no list
	Exists     bool                         // it was told that the deployment exists: see claim
	Quarantine func(node int) time.Duration // of a node that may have forgotten; 0 for none
}

// Mark is a marker to write on one node.
type Mark struct {
	Node int
	Call scripts.Call
}

// Plan returns the next marks to write. views has the view of each node of the client's list; nil for a node that did
// not answer. The marks of one plan may be written at once. When they are written, Plan is called again with the new
// views. It returns no marks when nothing is left to do, or nothing may be done.
func (c Client) Plan(views []*View) []Mark {
	if marks := c.correct(views); len(marks) > 0 {
		return marks
	}
	if top, found := c.evidence(views); found {
		return c.markAll(views, top)
	}
	if v := views[0]; len(views) == 1 && v != nil && !v.IsMarked() && v.marker.Members.Equal(c.List) && !v.marker.Claimed {
		return c.markAll(views, v.marker) // no other master can say more; and it goes on renewing what it has
	}
	return c.claim(views)
}

// Settle has write carry out plan after plan, until nothing is left to write, or a plan has changed nothing: the views
// are too old to mark by. write sets the views of the nodes that it marks, nil for one that does not answer; it returns
// false to stop.
func (c Client) Settle(views []*View, write func([]Mark) (goOn bool)) {
	for range 4 * len(views) { // a bound for nodes whose markers change under us
		marks, before := c.Plan(views), slices.Clone(views)
		if len(marks) == 0 || !write(marks) || slices.EqualFunc(before, views, isUnchanged) {
			return
		}
	}
}

// isUnchanged reports whether a mark has changed nothing that the client knew.
func isUnchanged(before, after *View) bool {
	return before == nil || after != nil && before.Seen.Marker == after.Seen.Marker
}

// MayMark reports whether a majority of the client's list accepts it: then blank nodes may be marked
// without the other nodes' replies.
func (c Client) MayMark(views []*View) bool {
	_, found := c.evidence(views)
	return found
}

// evidence returns the marker of the highest generation among a majority of the list that accepts
// this client; a generation that counts no changes is below all others. Fewer nodes could be ones
// that a change of the members has left behind.
func (c Client) evidence(views []*View) (top scripts.Marker, found bool) {
	var accepting []string
	for _, v := range views {
		if v == nil || v.Relation(c.List) != Accepts {
			continue
		}
		m := v.marker
		if len(accepting) == 0 || IsCounted(m.Generation) && (m.Generation > top.Generation || !IsCounted(top.Generation)) {
			top = m
		}
		accepting = append(accepting, v.Process.Member)
	}
	return top, IsMajority(c.List, accepting)
}

// markAll gives the blank nodes the members and the generation of top, and confirms the claims for
// this list. It leaves out the next members: a change that was taken back may still stand on some
// nodes, and must not spread.
func (c Client) markAll(views []*View, top scripts.Marker) (marks []Mark) {
	top.Next = scripts.NewList()
	for i, v := range views {
		if v == nil || v.isAdded(top.Members) {
			continue
		}
		switch relation := v.Relation(c.List); {
		case relation == Blank:
			marks = append(marks, c.write(i, v, top))
		case relation == Claimed && v.Has(top.Members):
			marks = append(marks, confirm(i, v, top))
		}
	}
	return marks
}

// claim marks a deployment that has too few marked nodes. All nodes must have answered, each
// blank, claimed for this list, or accepting this client. A node that has come back with the marker
// of another list is left for that list's clients, and so are all nodes if the highest generation has
// another list. The nodes are claimed one after the other, in the order of their names, so of two
// clients whose lists share a node one stops; a claim accepts nobody, so a client that stops has made
// no quorum. The quarantines begin with the claims. When all nodes are claimed, and every claim's
// quarantine is over, the claims are confirmed: by then every lease that a quorum of any list had
// granted before is over.
//
// A claim replaces the node's marker, and clients may ask a later process for its list. So a claim on a node that had the
// list has a generation, and keeps the node's next members. Any other has no generation, and says nothing then: it may be
// the wrong list's.
func (c Client) claim(views []*View) (marks []Mark) {
	var blank, claimed []int
	top, known := scripts.Marker{Generation: 1, Members: c.List}, false
	for i, v := range views {
		if v == nil {
			return nil
		}
		relation := v.Relation(c.List)
		switch {
		case v.HadAnother(c.List), relation == Refuses:
			return nil
		case c.Exists && !v.Has(c.List):
			return nil // the node may have another list's clients, alongside a removed one that kept this list
		case relation == Blank:
			blank = append(blank, i)
		case relation == Claimed:
			claimed = append(claimed, i)
		}
		if m := v.marker; m.Members.Len() > 0 && (!known || m.Generation > top.Generation) {
			top, known = m, true
		}
	}
	if !known && !c.Found || !top.Members.Equal(c.List) {
		return nil
	}
	if len(blank) > 0 {
		first := slices.MinFunc(blank, func(i, j int) int {
			return cmp.Compare(views[i].Process.Member, views[j].Process.Member)
		})
		return []Mark{c.claimed(first, views[first], top)}
	}
	top.Generation = max(top.Generation, 1)
	for _, i := range claimed {
		if views[i].Quarantine() > 0 {
			return nil
		}
		marks = append(marks, confirm(i, views[i], top))
	}
	return marks
}

// correct ends quarantines that are longer than this client's: the node's clock was set back, or
// the client wants none.
func (c Client) correct(views []*View) (marks []Mark) {
	for i, v := range views {
		if v == nil || v.Relation(c.List) != Accepts && v.Relation(c.List) != Claimed {
			continue
		}
		if v.Quarantine() > c.Quarantine(i) {
			call := v.Write(v.marker, scripts.In(c.Quarantine(i)), scripts.At(v.marker.Change))
			marks = append(marks, Mark{Node: i, Call: call})
		}
	}
	return marks
}

// confirm makes a claim a mark, with the members and the generation of top: the claim may be for these as the next
// ones. Its quarantine has begun with the claim.
func confirm(i int, v *View, top scripts.Marker) Mark {
	m := v.marker
	m.Claimed, m.Members, m.Next, m.Generation = false, top.Members, scripts.NewList(), top.Generation
	return Mark{Node: i, Call: v.Rewrite(m)}
}

// claimed claims a blank node for the members of top.
func (c Client) claimed(i int, v *View, top scripts.Marker) Mark {
	m := top
	m.Claimed, m.Next = true, scripts.NewList()
	if !v.Has(m.Members) {
		m.Generation = 0
	} else if v.marker.Members.Equal(m.Members) {
		m.Next = v.marker.Next
	}
	return c.write(i, v, m)
}

// write begins a blank node's quarantine. The next change waits for one max lease: the other marker's time is by another
// clock.
func (c Client) write(i int, v *View, m scripts.Marker) Mark {
	return Mark{Node: i, Call: v.Write(m, v.Admission(c.Quarantine(i)), scripts.In(v.Process.MaxLease))}
}

// Admission returns when a node that is marked or claimed now may start to grant: after the quarantine, unless an
// operator has admitted it within the last max lease.
func (v *View) Admission(quarantine time.Duration) scripts.When {
	m := v.marker
	admitted := v.IsMarked() && m.Members.Len() == 0 && m.Member == v.Process.Member && v.Now-m.Admitted <= m.MaxLease
	if admitted && m.Admitted-v.Now <= quarantine {
		return scripts.At(m.Admitted)
	}
	return scripts.In(quarantine)
}

// mostChanges is more than members ever change: a generation at or above it was forged, or
// corrupted. [scripts.ParseMarker] reads generations below 1<<53, so a command may count on from
// any below this one.
const mostChanges = 1 << 52

// IsCounted reports whether a generation counts changes.
func IsCounted(generation uint64) bool { return generation < mostChanges }
