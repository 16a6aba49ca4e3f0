package membership

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// Client is a client that may mark blank nodes.
type Client struct {
	List       *scripts.List
	Need       int                          // a majority of the list, whatever the quorum rule
	Found      bool                         // it may found a deployment: mark nodes none of which carries its list
	Quarantine func(node int) time.Duration // of a node that may have forgotten; 0 for none
	// Proven reports whether a node has let this client in within the last half of a max lease; a
	// mark is written within the other half. Known is the marker of such a node, as it was last
	// seen within that time; nil where none was.
	Proven func(node int) bool
	Known  *scripts.Marker
}

// Mark is a marker to write on one node.
type Mark struct {
	Node int
	Call scripts.Call
	// Claims says that the mark is a claim. After the last one all nodes must be looked at again,
	// since the first look may be old: a node may have been marked, and have forgotten, meanwhile.
	Claims bool
}

// Plan returns the next marks to write. views has, for each node of the client's list, what it said
// when it was looked at; nil for a node that did not answer. The marks of one plan may be written
// at once. When they are written, Plan is called again with the views that they gave; it returns
// none when nothing is left to do, or nothing may be done.
func (c Client) Plan(views []*View) []Mark {
	if marks := c.correct(views); len(marks) > 0 {
		return marks
	}
	if c.MayMark(views) {
		return c.markAll(views)
	}
	return c.claim(views)
}

// MayMark reports whether a majority of the nodes let this client in, now or recently: one more of
// them does not make a majority of a list that has none. The marker to copy must be known.
func (c Client) MayMark(views []*View) bool {
	proven, known := 0, c.Known != nil
	for i, v := range views {
		switch {
		case v != nil && v.Standing(c.List) == LetsIn:
			proven++
			known = true
		case (v == nil || v.Standing(c.List) == Blank) && c.Proven(i):
			proven++
		}
	}
	return known && proven >= c.Need
}

// markAll marks the nodes that are blank, or claimed for this list.
func (c Client) markAll(views []*View) (marks []Mark) {
	for i, v := range views {
		if v == nil {
			continue
		}
		switch v.Standing(c.List) {
		case Blank:
			marks = append(marks, c.mark(i, v, c.markerFor(views), c.admission(i, v)))
		case Claimed:
			marks = append(marks, c.confirm(i, v))
		}
	}
	return marks
}

// claim marks a deployment of which too few nodes are marked. A node that has come back with the
// marker of another list is left for that list's clients. All nodes must have answered, and
// none may refuse. The nodes are claimed one after the other, in the order of their names, so of
// two clients whose lists share a node one stops; a claim lets nobody in, so a client that stops
// has made no quorum. The quarantines begin with the claims. When all nodes are claimed, and every
// claim's quarantine is over, the claims are confirmed: by then each lease is over that any list's
// quorum had granted before.
func (c Client) claim(views []*View) (marks []Mark) {
	blank, claimed, carried := []int(nil), []int(nil), false
	for i, v := range views {
		if v == nil {
			return nil
		}
		switch v.Standing(c.List) {
		case Blank:
			if v.HadAnother(c.List) {
				return nil
			}
			blank, carried = append(blank, i), carried || v.had(c.List)
		case Claimed:
			claimed = append(claimed, i)
		case LetsIn:
			carried = true
		default:
			return nil
		}
	}
	if !carried && len(claimed) == 0 && !c.Found {
		return nil
	}
	if len(blank) > 0 {
		first := slices.MinFunc(blank, func(i, j int) int {
			return cmp.Compare(views[i].Process.Member, views[j].Process.Member)
		})
		m := c.markerFor(views)
		m.Claimed = true
		claim := c.mark(first, views[first], m, c.admission(first, views[first]))
		claim.Claims = true
		return []Mark{claim}
	}
	for _, i := range claimed {
		if views[i].waits() > 0 {
			return nil
		}
		marks = append(marks, c.confirm(i, views[i]))
	}
	return marks
}

// correct ends quarantines that are longer than this client's: the node's clock was set back, or
// the client wants none.
func (c Client) correct(views []*View) (marks []Mark) {
	for i, v := range views {
		if v == nil || v.Standing(c.List) != LetsIn && v.Standing(c.List) != Claimed {
			continue
		}
		if left, _ := v.Quarantine(); left > c.Quarantine(i) {
			call := v.write(v.marker, scripts.In(c.Quarantine(i)), scripts.At(v.marker.Change))
			marks = append(marks, Mark{Node: i, Call: call})
		}
	}
	return marks
}

// markerFor returns the lists that a blank node gets: those of the node of the highest generation
// that carries the client's list; or else those that are known, which may be older than the last
// change; or else the client's own as a new deployment.
func (c Client) markerFor(views []*View) scripts.Marker {
	m := scripts.Marker{Generation: 1, Members: c.List, Next: scripts.NewList()}
	if c.Known != nil {
		m = *c.Known
	}
	seen := false // m is the marker of a view
	for _, v := range views {
		if v == nil || v.Standing(c.List) != LetsIn && v.Standing(c.List) != Claimed {
			continue
		}
		better := v.marker.Generation > m.Generation ||
			v.marker.Generation == m.Generation && m.Next.Len() == 0 && v.marker.Next.Len() > 0
		if !seen { // a claim may be older than what is known
			better = v.Standing(c.List) == LetsIn || v.marker.Generation >= m.Generation
		}
		if better {
			m, seen = v.marker, true
		}
	}
	m.Claimed = false
	return m
}

// confirm makes a claim a mark. Its quarantine has begun with the claim.
func (c Client) confirm(i int, v *View) Mark {
	m := v.marker
	m.Claimed = false
	return Mark{Node: i, Call: v.rewrite(m)}
}

// mark writes the lists of another node's marker on a blank node. The next change waits for one max
// lease: the time that the other marker has is by another clock.
func (c Client) mark(i int, v *View, m scripts.Marker, admitted scripts.When) Mark {
	return Mark{Node: i, Call: v.write(m, admitted, scripts.In(v.Process.MaxLease))}
}

// admission returns from when on a node that this client marks or claims may grant: after a
// quarantine, unless it is known that the node has not forgotten. An operator has admitted it
// within the last max lease, or it has the older marker of this very process.
func (c Client) admission(i int, v *View) scripts.When {
	older, m := v.older, v.marker
	at, known := time.Duration(0), false
	switch {
	case v.IsMarked():
		at, known = m.Admitted, m.Member == v.Process.Member && v.Now-m.Admitted <= m.MaxLease
	case v.Text == "" && older != nil && older.Run == v.Process.Run && older.MaxLease == v.Process.MaxLease:
		at, known = older.Admitted, true
	}
	if known && at-v.Now <= c.Quarantine(i) {
		return scripts.At(at)
	}
	return scripts.In(c.Quarantine(i))
}

// Admit returns the mark with which an operator ends the node's quarantine. list is the list of
// masters that the node gets; nil keeps the one that it has. The error says why the node may not be
// admitted so.
func (v *View) Admit(list *scripts.List) (scripts.Call, error) {
	m := scripts.Marker{Members: scripts.NewList(), Next: scripts.NewList()}
	change := scripts.At(0)
	if !v.IsBlank() {
		if list == nil && v.marker.Member != v.Process.Member {
			return scripts.Call{}, fmt.Errorf("%w: this master is the member %s of %s: admit it by that name "+
				"(?name=... in the URL)", ErrDiffers, v.marker.Member, v.marker.Members)
		}
		m, change = v.marker, scripts.At(v.marker.Change)
	}
	if list != nil && (m.Claimed || !m.Members.Equal(list) || m.Next.Len() > 0) {
		m.Members, m.Next, m.Claimed, m.Generation = list, scripts.NewList(), false, m.Generation+1
		change = scripts.In(v.Process.MaxLease)
	}
	return v.write(m, scripts.In(0), change), nil
}
