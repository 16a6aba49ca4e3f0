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
// Abort goes back from Announce. Each is repeated until it returns no marks: it may have been
// interrupted anywhere. After Commit and Abort, the next change waits for one max lease: the lists
// that are refused from now on may hold for so long.
//
// Views and marks are by the name of the member; a view is nil for a master that did not answer. An
// error says in a sentence for the operator why nothing may be written, and what to do.
type Change struct {
	From, To *scripts.List
}

// NewChange returns the change. The error says why it cannot be made.
func NewChange(from, to *scripts.List) (Change, error) {
	more, fewer := to.Len() == from.Len()+1 && to.HasAll(from), from.Len() == to.Len()+1 && from.HasAll(to)
	switch {
	case to.Len() < 2:
		return Change{}, fmt.Errorf("%s would be left: a change to fewer than two masters is not safe: stop all clients, "+
			"wait one max lease, and admit the masters anew (quorumlock admit -members)", to)
	case !more && !fewer:
		return Change{}, fmt.Errorf("%s and %s do not differ by one member", from, to)
	}
	return Change{from, to}, nil
}

// Announce returns the marks to write now, at once. When there are none, wait is how long the
// member that is added must still wait in quarantine before Announce is called again; at 0 the
// change is announced on all members of To.
func (c Change) Announce(views map[string]*View) (marks map[string]scripts.Call, wait time.Duration, err error) {
	generation, err := c.present(views)
	if err != nil {
		return nil, 0, err
	}
	marks = map[string]scripts.Call{}
	for _, name := range c.To.Names() {
		v := views[name]
		m := v.marker
		switch {
		case c.From.Has(name) && m.Next.Equal(c.To):
		case c.From.Has(name):
			m.Next = c.To
			marks[name] = v.rewrite(m)
		default:
			call, left, err := c.prepare(name, v, generation)
			if err != nil {
				return nil, 0, err
			}
			if call != nil { // the others follow when its quarantine is over
				return map[string]scripts.Call{name: *call}, 0, nil
			}
			if left > 0 {
				return nil, left, nil
			}
			if m.Claimed || !m.Next.Equal(c.To) {
				m.Claimed, m.Members, m.Next, m.Generation = false, c.From, c.To, generation
				marks[name] = v.rewrite(m)
			}
		}
	}
	return marks, 0, nil
}

// present checks the members of From that stay, and returns their generation.
func (c Change) present(views map[string]*View) (generation uint64, err error) {
	first := ""
	for _, name := range c.To.Names() {
		v := views[name]
		if v == nil {
			return 0, fmt.Errorf("%s does not answer: all members of %s must (a dead one is removed first)", name, c.To)
		}
		if !c.From.Has(name) {
			continue
		}
		if err := v.mayChange(name); err != nil {
			return 0, err
		}
		m := v.marker
		switch {
		case m.Members.Equal(c.To) && c.isAnnounced(views):
			return 0, fmt.Errorf("%s has the members %s already (generation %d): members commit finishes the change",
				name, c.To, m.Generation)
		case m.Members.Equal(c.To):
			return 0, fmt.Errorf("%s has the members %s already (generation %d). %s", name, c.To, m.Generation, takenBack)
		case !m.Members.Equal(c.From):
			return 0, fmt.Errorf("%s has the members %s (generation %d), not %s: give that list",
				name, m.Members, m.Generation, c.From)
		case m.Next.Len() > 0 && !m.Next.Equal(c.To):
			return 0, fmt.Errorf("on %s a change to %s is under way: members commit or members abort comes first", name, m.Next)
		case first != "" && m.Generation != generation:
			return 0, fmt.Errorf("%s is in generation %d, %s in %d: members commit with that list comes first",
				first, generation, name, m.Generation)
		}
		if first == "" {
			first, generation = name, m.Generation
		}
	}
	return generation, nil
}

// isAnnounced reports whether a member of To says that the members change to To.
func (c Change) isAnnounced(views map[string]*View) bool {
	for _, v := range views {
		if v != nil && v.marker.Next.Equal(c.To) {
			return true
		}
	}
	return false
}

// takenBack says what to do with a master on which a change was committed that was aborted on the
// others while it was away.
const takenBack = "Where all others have another list, the change was taken back while this master was away: wipe " +
	"its list (DEL " + scripts.MarkerKey + " on it), and clients mark it again"

// mayChange returns why a member of From, which stays, cannot be changed now.
func (v *View) mayChange(name string) error {
	m := v.marker
	switch left := v.waits(); {
	case v.IsBlank():
		return errBlank(name)
	case m.Claimed:
		return fmt.Errorf("%s is being marked for %s: lock any name with that list, and all its masters up", name, m.Members)
	case m.Member != v.Process.Member:
		return errMember(name, m)
	case m.MaxLease != v.Process.MaxLease:
		return errMaxLease(name, m)
	case left > 0:
		return fmt.Errorf("%s is in quarantine for another %v: wait", name, round(left))
	case m.Change > v.Now:
		return fmt.Errorf("the members of %s changed, or it was marked, less than one max lease ago: the next change waits "+
			"for another %v, because locks may still be held with the list before", name, round(m.Change-v.Now))
	}
	return nil
}

// prepare begins the quarantine of the member that is added. It returns the mark to write, or else
// how long the quarantine lasts.
func (c Change) prepare(name string, v *View, generation uint64) (call *scripts.Call, left time.Duration, err error) {
	m := v.marker
	switch {
	case v.IsBlank():
		admitted := Client{Quarantine: func(int) time.Duration { return v.Process.MaxLease }}.admission(0, v)
		prepared := scripts.Marker{Claimed: true, Generation: generation, Members: c.From, Next: c.To}
		mark := v.write(prepared, admitted, scripts.At(0))
		return &mark, 0, nil
	case m.MaxLease != v.Process.MaxLease:
		return nil, 0, errMaxLease(name, m)
	case m.Member != v.Process.Member, !m.Members.Equal(c.From) || m.Members.Has(m.Member) || m.Generation != generation,
		m.Next.Len() > 0 && !m.Next.Equal(c.To):
		return nil, 0, fmt.Errorf("%s is already the member %s of %s (generation %d): a master that has been in another "+
			"list is wiped before it joins this one: stop its clients, then DEL %s on it",
			name, m.Member, m.Members, m.Generation, scripts.MarkerKey)
	}
	return nil, v.waits(), nil
}

// Commit returns the marks that make the next members the members, on all members of the list to.
// It returns none when all have them. Where no change is under way, it gives all the highest of
// their generations: masters that an operator admitted anew, while others were away, are behind.
func Commit(to *scripts.List, views map[string]*View) (map[string]scripts.Call, error) {
	marks := map[string]scripts.Call{}
	after, highest, pending := map[string]uint64{}, uint64(0), false
	for _, name := range to.Names() {
		v := views[name]
		if err := mayCommit(name, v, to); err != nil {
			return nil, err
		}
		m := v.marker
		after[name] = m.Generation
		if m.Next.Equal(to) {
			after[name]++
			pending = true
			m.Members, m.Next, m.Generation = to, scripts.NewList(), after[name]
			marks[name] = v.write(m, scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))
		}
		highest = max(highest, after[name])
	}
	for _, name := range to.Names() {
		switch v := views[name]; {
		case after[name] == highest:
		case pending:
			return nil, fmt.Errorf("%s would be in generation %d, others in %d: the change is not announced on all of %s",
				name, after[name], highest, to)
		default:
			m := v.marker
			m.Generation = highest
			marks[name] = v.rewrite(m)
		}
	}
	return marks, nil
}

// mayCommit returns why the list to cannot become a node's members; nil also where it is committed.
func mayCommit(name string, v *View, to *scripts.List) error {
	if v == nil {
		return fmt.Errorf("%s does not answer: all members of %s must", name, to)
	}
	switch m := v.marker; {
	case v.IsBlank():
		return errBlank(name)
	case m.Member != v.Process.Member:
		return errMember(name, m)
	case m.Claimed:
		return fmt.Errorf("%s is being marked for %s: the change is not announced there yet: members add comes first",
			name, m.Members)
	case m.Next.Equal(to), m.Next.Len() == 0 && m.Members.Equal(to):
		return nil
	case m.Next.Len() > 0:
		return fmt.Errorf("on %s a change to %s is under way, not to %s: members commit with that list, or members abort",
			name, m.Next, to)
	default:
		return fmt.Errorf("%s has the members %s (generation %d), and no change to %s is announced there: "+
			"members add or remove comes first. %s", name, m.Members, m.Generation, to, takenBack)
	}
}

// Abort returns the marks that take back an announced change, on the masters that have answered. It
// returns none when no change is announced there.
func Abort(views map[string]*View) (map[string]scripts.Call, error) {
	marks := map[string]scripts.Call{}
	var announced []*scripts.List
	for name, v := range views {
		if v == nil || !v.IsMarked() || v.marker.Next.Len() == 0 {
			continue
		}
		m := v.marker
		announced = append(announced, m.Next)
		m.Next = scripts.NewList()
		marks[name] = v.write(m, scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))
	}
	for name, v := range views {
		for _, next := range announced {
			if v != nil && v.IsMarked() && !v.marker.Claimed && v.marker.Members.Equal(next) {
				return nil, fmt.Errorf("the change to %s is committed on %s already: members commit finishes it", next, name)
			}
		}
	}
	return marks, nil
}

func errBlank(name string) error {
	return fmt.Errorf("%s is blank: it waits until a client with its list marks it (lock any name), "+
		"or for quorumlock admit -members", name)
}

func errMember(name string, m scripts.Marker) error {
	return fmt.Errorf("%s is the member %s of %s: name it so (?name=... in the URL)", name, m.Member, m.Members)
}

func errMaxLease(name string, m scripts.Marker) error {
	return fmt.Errorf("%s has the max lease %v: say -max-lease %v", name, m.MaxLease, m.MaxLease)
}

// round rounds up, for people.
func round(d time.Duration) time.Duration {
	return d.Truncate(100*time.Millisecond) + 100*time.Millisecond
}
