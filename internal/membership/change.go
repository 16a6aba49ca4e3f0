package membership

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// Change is a change of the members by one: From to To. Majorities of the two meet, so clients of
// both may lock while it is under way.
//
// Announce lets in clients with To beside those with From, Commit then refuses those with From, and
// Abort goes back from Announce. After Commit and Abort, the next change waits for one max lease: the
// lists that they refuse may hold for so long. Each may be interrupted anywhere, and repeated.
type Change struct {
	From, To *scripts.List
}

// NewChange returns the change. The error says why it cannot be made.
func NewChange(from, to *scripts.List) (Change, error) {
	switch {
	case to.Len() < 2:
		return Change{}, fmt.Errorf("%s would be left: a change to fewer than two masters is not safe: stop all clients, "+
			"wait one max lease, and admit the masters anew (quorumlock admit -members)", to)
	case !areNeighbours(from, to):
		return Change{}, fmt.Errorf("%s and %s do not differ by one member", from, to)
	}
	return Change{from, to}, nil
}

// areNeighbours reports whether two lists differ by one member that the longer one has.
func areNeighbours(a, b *scripts.List) bool {
	return a.Len() == b.Len()+1 && a.HasAll(b) || b.Len() == a.Len()+1 && b.HasAll(a)
}

// without returns the one member of list that other does not have; empty unless there is one.
func without(list, other *scripts.List) string {
	if other.Len() == 0 || list.Len() != other.Len()+1 || !list.HasAll(other) {
		return ""
	}
	for _, name := range list.Names() {
		if !other.Has(name) {
			return name
		}
	}
	return ""
}

// errBlank is why a blank member holds up a change.
func errBlank(name string) error {
	return fmt.Errorf("%s is blank: it waits until a client with its list marks it (lock any name), "+
		"or for quorumlock admit -members", name)
}

// misfit returns why a master is not the one that the operator takes it for, nil when it is.
func (v *View) misfit(name string) error {
	switch m := v.marker; {
	case m.MaxLease != v.Process.MaxLease:
		return fmt.Errorf("%s has the max lease %v: say -max-lease %v", name, m.MaxLease, m.MaxLease)
	case m.Member != v.Process.Member:
		return fmt.Errorf("%s is the member %s of %s: name it so (?name=... in the URL)", name, m.Member, m.Members)
	}
	return nil
}

// takenBack says what to do with a master on which a change was committed that was aborted on the
// others while it was away.
const takenBack = "If all others have another list, the change was taken back while this master was away: wipe " +
	"its list (DEL " + scripts.MarkerKey + " on it), and clients mark it again"

// round rounds up, for people.
func round(d time.Duration) time.Duration {
	return d.Truncate(100*time.Millisecond) + 100*time.Millisecond
}
