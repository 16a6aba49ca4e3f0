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
// Abort goes back from Announce. Each is repeated until it returns no steps: it may have been
// interrupted anywhere. After Commit and Abort, the next change waits for one max lease: the lists
// that are refused from now on may hold for so long.
//
// Views are by the name of the member; nil for a master that did not answer.
type Change struct {
	From, To *scripts.List
}

// NewChange returns the change. The error says why it cannot be made.
func NewChange(from, to *scripts.List) (Change, error) {
	more, fewer := to.Len() == from.Len()+1 && to.HasAll(from), from.Len() == to.Len()+1 && from.HasAll(to)
	switch {
	case to.Len() < 2:
		return Change{}, fmt.Errorf("%s would be left: a change to fewer than two masters is not safe: stop all clients, wait "+
			"one max lease, and admit the masters anew (quorumlock admit -members)", to)
	case !more && !fewer:
		return Change{}, fmt.Errorf("%s and %s do not differ by one member", from, to)
	}
	return Change{from, to}, nil
}

// Refused is why an operator's step cannot be made, in a sentence that says what to do.
type Refused string

func (r Refused) Error() string { return string(r) }

func refusedf(format string, args ...any) error { return Refused(fmt.Sprintf(format, args...)) }

// Announce returns the marks to write now, at once. When there are none, wait is how long the member
// that is added must still wait in quarantine before Announce is called again; at 0 the change is
// announced on all members of To.
func (c Change) Announce(views map[string]*View) (steps map[string]scripts.Call, wait time.Duration, err error) {
	generation, err := c.present(views)
	if err != nil {
		return nil, 0, err
	}
	steps = map[string]scripts.Call{}
	for _, name := range c.To.Names() {
		v := views[name]
		m := v.marker
		switch {
		case c.From.Has(name) && m.Next.Equal(c.To):
		case c.From.Has(name):
			m.Next = c.To
			steps[name] = v.rewrite(m)
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
				steps[name] = v.rewrite(m)
			}
		}
	}
	return steps, 0, nil
}

// present checks the members of From that stay, and returns their generation.
func (c Change) present(views map[string]*View) (generation uint64, err error) {
	first := ""
	for _, name := range c.To.Names() {
		v := views[name]
		if v == nil {
			return 0, refusedf("%s does not answer: all members of %s must (a dead one is removed first)", name, c.To)
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
			return 0, refusedf("%s has the members %s already (generation %d): members commit finishes the change",
				name, c.To, m.Generation)
		case m.Members.Equal(c.To):
			return 0, refusedf("%s has the members %s already (generation %d). %s", name, c.To, m.Generation, takenBack)
		case !m.Members.Equal(c.From):
			return 0, refusedf("%s has the members %s (generation %d), not %s: give that list", name, m.Members, m.Generation, c.From)
		case m.Next.Len() > 0 && !m.Next.Equal(c.To):
			return 0, refusedf("on %s a change to %s is under way: members commit or members abort comes first", name, m.Next)
		case first != "" && m.Generation != generation:
			return 0, refusedf("%s is in generation %d, %s in %d: members commit with that list comes first", first, generation, name, m.Generation)
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

// takenBack says what to do with a master on which a change was committed that was aborted on the others
// while it was away.
const takenBack = "Where all others have another list, the change was taken back while this master was away: wipe its " +
	"list (DEL " + scripts.MarkerKey + " on it), and clients mark it again"

// mayChange returns why no step of a change can be made with a node.
func (v *View) mayChange(name string) error {
	m := v.marker
	left, marked := v.Quarantine()
	switch {
	case !v.IsMarked() || m.Members.Len() == 0:
		return refusedf("%s is blank: it waits until a client with its list marks it (lock any name), or for quorumlock admit -members", name)
	case m.Claimed:
		return refusedf("%s is being marked for %s: lock any name with that list, and all its masters up", name, m.Members)
	case m.Member != v.Process.Member:
		return refusedf("%s is the member %s of %s: name it so (?name=... in the URL)", name, m.Member, m.Members)
	case m.MaxLease != v.Process.MaxLease:
		return refusedf("%s has the max lease %v: say -max-lease %v", name, m.MaxLease, m.MaxLease)
	case !marked || left > 0:
		return refusedf("%s is in quarantine for another %v: wait", name, round(left))
	case m.Change > v.Now:
		return refusedf("the members changed lately: the next change waits for another %v, because %s may still have granted "+
			"locks to the list before", round(m.Change-v.Now), name)
	}
	return nil
}

// prepare begins the quarantine of the member that is added. It returns the mark to write, or else how
// long the quarantine lasts.
func (c Change) prepare(name string, v *View, generation uint64) (call *scripts.Call, left time.Duration, err error) {
	m := v.marker
	switch {
	case !v.IsMarked() || m.Members.Len() == 0:
		admitted := Client{Quarantine: func(int) time.Duration { return v.Process.MaxLease }}.admission(0, v)
		prepared := scripts.Marker{Claimed: true, Generation: generation, Members: c.From, Next: c.To}
		mark := v.write(prepared, admitted, scripts.At(0))
		return &mark, 0, nil
	case m.MaxLease != v.Process.MaxLease:
		return nil, 0, refusedf("%s has the max lease %v: say -max-lease %v", name, m.MaxLease, m.MaxLease)
	case m.Member != v.Process.Member, !m.Members.Equal(c.From) || m.Members.Has(m.Member) || m.Generation != generation,
		m.Next.Len() > 0 && !m.Next.Equal(c.To):
		return nil, 0, refusedf("%s is already the member %s of %s (generation %d): a master that has been in another list "+
			"is wiped before it joins this one: stop its clients, then DEL %s on it", name, m.Member, m.Members, m.Generation, scripts.MarkerKey)
	}
	return nil, v.waits(), nil
}

// Commit returns the marks that make the next members the members, on all members of the list to. It
// returns none when all have them. Where no change is under way, it gives all the highest of their
// generations: masters that an operator admitted anew, while others were away, are behind.
func Commit(to *scripts.List, views map[string]*View) (map[string]scripts.Call, error) {
	steps := map[string]scripts.Call{}
	after, highest, pending := map[string]uint64{}, uint64(0), false
	for _, name := range to.Names() {
		v := views[name]
		if v == nil {
			return nil, refusedf("%s does not answer: all members of %s must", name, to)
		}
		m := v.marker
		after[name] = m.Generation
		switch {
		case !v.IsMarked() || m.Members.Len() == 0:
			return nil, refusedf("%s is blank: it waits until a client marks it (lock any name), or for quorumlock admit -members", name)
		case m.Member != v.Process.Member:
			return nil, refusedf("%s is the member %s of %s: name it so (?name=... in the URL)", name, m.Member, m.Members)
		case m.Claimed:
			return nil, refusedf("%s is being marked for %s: the change is not announced there yet: members add comes first", name, m.Members)
		case m.Members.Equal(to) && m.Next.Len() == 0: // committed
		case m.Next.Equal(to):
			after[name]++
			pending = true
			m.Members, m.Next, m.Generation = to, scripts.NewList(), after[name]
			steps[name] = v.write(m, scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))
		case m.Next.Len() > 0:
			return nil, refusedf("on %s a change to %s is under way, not to %s: members commit with that list, or members abort", name, m.Next, to)
		default:
			return nil, refusedf("%s has the members %s (generation %d), and no change to %s is announced there: "+
				"members add or remove comes first. %s", name, m.Members, m.Generation, to, takenBack)
		}
		highest = max(highest, after[name])
	}
	for _, name := range to.Names() {
		switch v := views[name]; {
		case after[name] == highest:
		case pending:
			return nil, refusedf("%s would be in generation %d, others in %d: the change is not announced on all of %s", name, after[name], highest, to)
		default:
			m := v.marker
			m.Generation = highest
			steps[name] = v.rewrite(m)
		}
	}
	return steps, nil
}

// Abort returns the marks that take back an announced change, on the masters that have answered. It
// returns none when no change is announced there.
func Abort(views map[string]*View) (map[string]scripts.Call, error) {
	steps := map[string]scripts.Call{}
	var announced []*scripts.List
	for name, v := range views {
		if v == nil || !v.IsMarked() || v.marker.Next.Len() == 0 {
			continue
		}
		m := v.marker
		announced = append(announced, m.Next)
		m.Next = scripts.NewList()
		steps[name] = v.write(m, scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))
	}
	for name, v := range views {
		for _, next := range announced {
			if v != nil && v.IsMarked() && !v.marker.Claimed && v.marker.Members.Equal(next) {
				return nil, refusedf("the change to %s is committed on %s already: members commit finishes it", next, name)
			}
		}
	}
	return steps, nil
}

func round(d time.Duration) time.Duration {
	return d.Truncate(100*time.Millisecond) + 100*time.Millisecond
}
