package change

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// Admit returns the mark with which an operator ends the node's quarantine. list is the list of
// masters that the node gets; nil keeps the one that it has. The error says why the node may not be
// admitted so.
func Admit(v *membership.View, list *scripts.List) (scripts.Call, error) {
	seen := v.Marker()
	m := scripts.Marker{Members: scripts.NewList(), Next: scripts.NewList()}
	change := scripts.At(0)
	if list == nil && seen.Member != v.Process.Member && seen.Members.Len() > 0 {
		return scripts.Call{}, fmt.Errorf("%w: this master is the member %s of %s: admit it by that name "+
			"(?name=... in the URL)", membership.ErrDiffers, seen.Member, seen.Members)
	}
	switch { // a node whose number of replicas changes is blank: its run changes
	case !v.IsBlank():
		m, change = seen, scripts.At(seen.Change)
	case list == nil && seen.Members.Len() > 0: // its list stays, and a client with it confirms that
		m, change = seen, scripts.In(v.Process.MaxLease)
		m.Claimed = seen.Claimed || seen.Members.Has(seen.Member) || seen.Next.Len() > 0 // else it stays retired
	}
	if list != nil && !membership.IsCounted(m.Generation) {
		m.Generation, m.Claimed = 0, true // everything starts over
	}
	if list != nil && (m.Claimed || !m.Members.Equal(list) || m.Next.Len() > 0) {
		m.Members, m.Next, m.Claimed, m.Generation = list, scripts.NewList(), false, m.Generation+1
		change = scripts.In(v.Process.MaxLease)
	}
	return v.Write(m, scripts.In(0), change), nil
}

// AdmissionLeft returns how long an operator's admission of a blank node still counts: a client that
// marks the node later begins its quarantine. It returns false if there is no admission, or none that
// still counts.
func AdmissionLeft(v *membership.View) (left time.Duration, given bool) {
	m := v.Marker()
	left = m.Admitted + m.MaxLease - v.Now
	return left, v.IsMarked() && m.Members.Len() == 0 && left >= 0
}
