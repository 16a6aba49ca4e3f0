package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// Change is a change of the members by one: From to To. Majorities of the two meet, so clients of
// both may lock while it is under way.
//
// Announce accepts clients with To alongside those with From, Commit then refuses those with From, and
// Abort goes back from Announce. After Commit and Abort, the next change waits for one max lease,
// since clients with a refused list may hold locks until then. Each may be interrupted anywhere, and
// repeated.
type Change struct {
	From, To *scripts.List
	// Waits bounds the wait until one max lease has passed since the last change: Announce refuses at once if it
	// would be longer.
	Waits time.Duration
}

// New returns the change. The error says why it cannot be made.
func New(from, to *scripts.List) (Change, error) {
	switch {
	case to.Len() < 2:
		return Change{}, fmt.Errorf("%s would be left: a change to fewer than two masters is not safe: stop all clients, "+
			"wait one max lease, and admit the masters again (quorumlock admit -members)", to)
	case !areNeighbours(from, to):
		return Change{}, fmt.Errorf("%s and %s do not differ by one member", from, to)
	}
	return Change{From: from, To: to}, nil
}

// areNeighbours reports whether two lists differ by one member that the longer one has.
func areNeighbours(a, b *scripts.List) bool {
	return a.Len() == b.Len()+1 && HasAll(a, b) || b.Len() == a.Len()+1 && HasAll(b, a)
}

// extraMember returns the one member of list that other does not have; empty unless there is one.
func extraMember(list, other *scripts.List) string {
	if other.Len() == 0 || list.Len() != other.Len()+1 || !HasAll(list, other) {
		return ""
	}
	for _, name := range list.Names() {
		if !other.Has(name) {
			return name
		}
	}
	return ""
}

// errBlank returns why a blank member holds up a change.
func errBlank(v *membership.View, name string) error {
	list := "its list"
	if v.Marker().Members.Len() > 0 {
		list = v.Marker().Members.String()
	}
	return fmt.Errorf("%s is blank: a client with %s must mark it (lock any name), or an operator admit it "+
		"(quorumlock admit -members, if what it asserts is true)", name, list)
}

// misfit returns why a master is not the one that the operator takes it for, nil when it is.
func misfit(v *membership.View, name string) error {
	switch m := v.Marker(); {
	case m.MaxLease != v.Process.MaxLease:
		return fmt.Errorf("%s has the max lease %v: use -max-lease %v", name, m.MaxLease, m.MaxLease)
	case m.Member != v.Process.Member:
		return fmt.Errorf("%s is the member %s of %s: name it so (?name=... in the URL)", name, m.Member, m.Members)
	case !membership.IsCounted(m.Generation):
		return fmt.Errorf("%s has the generation %d, which counts no changes: wipe it (%s), and clients with its list mark "+
			"it again. If more than one has such a generation: quorumlock admit -yes -members with the URLs of all, once all "+
			"clients have been stopped for one max lease", name, m.Generation, Wipe(name))
	}
	return nil
}

// endChange says how the change that a marker announces ends.
func endChange(m scripts.Marker, views map[string]*membership.View) string {
	for _, v := range views { // the master of this marker may have missed the commit, and the next change is under way
		later := v.Marker()
		isNext := later.Generation > m.Generation && later.Members.Equal(m.Next) && later.Next.Len() > 0
		if isNext && !v.IsBlank() && !later.Claimed { // these may have missed an abort, and are marked without next members
			return endChange(later, views)
		}
	}
	if _, isCommitted := Progress(m.Next, views); isCommitted {
		return fmt.Sprintf("members commit with the URLs of %s, as a master has committed it", m.Next)
	}
	both := scripts.NewList(slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.Members.Names(), m.Next.Names()))))...)
	return fmt.Sprintf("members commit with the URLs of %s, or members abort with the URLs of %s", m.Next, both)
}

// wayOut says what to do if masters have different lists and an abort is too late: a change was
// committed on some, and perhaps taken back on others while these were away.
func wayOut(views map[string]*membership.View) string {
	if way := Finish(views); way != "" {
		return way
	}
	if list, apart := mostHave(views); len(apart) > 0 {
		return fmt.Sprintf("most masters have %s, and %s another list, from a change that was taken back: wipe it there (%s), "+
			"and clients with %[1]s mark it again", list, strings.Join(apart, ", "), Wipe(apart...))
	}
	start := ""
	if away := missing(views); len(away) > 0 {
		start = fmt.Sprintf("start the masters that do not answer, or give their URLs (%s), and repeat the command; or ", strings.Join(away, ", "))
	}
	return start + "give all masters the list that you want: quorumlock admit -yes -members with its URLs, if what that asserts is true"
}

// missing returns the masters of any list that have no view.
func missing(views map[string]*membership.View) (names []string) {
	for _, v := range views {
		if v.IsBlank() {
			continue
		}
		for _, name := range slices.Concat(v.Marker().Members.Names(), v.Marker().Next.Names()) {
			if views[name] == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Finish says how masters get a list that most of its members have, or how the removed master is retired; empty if a
// commit would write nothing.
func Finish(views map[string]*membership.View) string {
	given, to := finishing(views)
	switch {
	case to == nil:
		return ""
	case given.Equal(to):
		return fmt.Sprintf("members commit with the URLs of %s gives all of them that list", to)
	}
	return fmt.Sprintf("members commit with the URLs of %s gives all of them the list %s, and retires %s",
		given, to, extraMember(given, to))
}

// finishing returns a list that a commit would write on some masters, and the masters to give to the commit; nil for
// none. The removed master is among them only if nothing else is left to do.
func finishing(views map[string]*membership.View) (given, to *scripts.List) {
	for _, name := range slices.Sorted(maps.Keys(views)) {
		m := views[name].Marker()
		for _, list := range []*scripts.List{m.Next, m.Members} {
			p, _ := commit(list, views) // it refuses a list that only blank or claimed masters have
			switch {
			case len(p.marks) == 0:
			case p.report.To.Equal(list):
				return list, list
			case given == nil:
				given, to = list, p.report.To
			}
		}
	}
	return given, to
}

// mostHave returns a list that a majority of its members have, and the members that have another.
func mostHave(views map[string]*membership.View) (list *scripts.List, apart []string) {
	for _, v := range views {
		list, apart = v.Marker().Members, nil
		var have []string
		for _, name := range list.Names() {
			switch other := views[name]; {
			case other == nil || other.IsBlank() || other.Marker().Claimed: // clients with the list mark it
			case other.Marker().Next.Len() == 0 && other.Marker().Members.Equal(list):
				have = append(have, name)
			default:
				apart = append(apart, name)
			}
		}
		if membership.IsMajority(list, have) {
			return list, apart
		}
	}
	return nil, nil
}

// areSplit reports whether masters that answer have different lists, and none of these is finished.
func areSplit(views map[string]*membership.View) bool {
	lists := map[string]*scripts.List{}
	for _, v := range views {
		if !v.IsBlank() && !v.Marker().Claimed && !isOutside(v) {
			lists[v.Marker().Members.String()] = v.Marker().Members
		}
	}
	for _, list := range lists {
		if p, err := commit(list, views); err == nil && len(p.marks) == 0 {
			return false
		}
	}
	return len(lists) > 1
}

// isLost reports whether no member that answers has the list, and no list has a majority: the list's URLs are no way out.
func isLost(list *scripts.List, views map[string]*membership.View) bool {
	for _, v := range views {
		if !v.IsBlank() && !isOutside(v) && v.Marker().Members.Equal(list) {
			return false
		}
	}
	most, _ := mostHave(views)
	return most == nil
}

// round rounds up, for people.
func round(d time.Duration) time.Duration {
	return d.Truncate(100*time.Millisecond) + 100*time.Millisecond
}

// isOutside reports whether the node is not a member in its own marker: a change has removed
// it, or has announced it and is not committed there.
func isOutside(v *membership.View) bool {
	m := v.Marker()
	return !v.IsBlank() && !m.Claimed && !m.Members.Has(m.Member)
}

// IsRetired reports whether the node is outside and not announced, so it accepts nobody: a change has removed it, a
// change that added it was taken back, or it was added and has forgotten that.
func IsRetired(v *membership.View) bool { return isOutside(v) && v.Marker().Next.Len() == 0 }
