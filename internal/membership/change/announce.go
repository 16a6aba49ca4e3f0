package change

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// Announce returns the command that accepts clients with To alongside those with From.
//
// All members of To must answer. Before the first mark that announces it raises the token counters: a token is on a
// majority of the list that issued it, and majorities of a list and the next but one need not meet. So the highest
// counters are read from a majority of From, and written to one. This comes after the wait for the last change, when
// no attempt under an older list is under way.
func (c Change) Announce() *Procedure {
	all := c.From
	if c.To.Len() > all.Len() {
		all = c.To
	}
	return newProcedure(all.Names(), c.announce)
}

func (c Change) announce(views map[string]*membership.View) (p plan, err error) {
	p = plan{tokensOf: c.From, report: Report{From: c.From, To: c.To}}
	generation, err := c.present(views)
	if err != nil {
		return plan{}, err
	}
	first, isReady := plan{}, true
	if added := extraMember(c.To, c.From); added != "" {
		if first, isReady, err = c.prepare(added, views[added], generation); err != nil {
			return plan{}, err
		}
	}
	before, mayChange, err := c.await(views)
	switch {
	case before.wait > 0 && len(first.marks) > 0: // the quarantine of the member that is added runs meanwhile
		return first, nil
	case !mayChange:
		return before, err
	case !isReady:
		return first, nil
	}
	for _, name := range c.To.Names() {
		v := views[name]
		m := v.Marker()
		if m.Claimed || !m.Next.Equal(c.To) {
			m.Claimed, m.Members, m.Next, m.Generation = false, c.From, c.To, generation
			p.mark(name, v, v.Rewrite(m))
		}
	}
	return p, nil
}

// present checks the members of From that stay, and returns the highest of their generations.
func (c Change) present(views map[string]*membership.View) (generation uint64, err error) {
	for _, name := range c.To.Names() {
		v := views[name]
		if v == nil && !c.From.Has(name) {
			return 0, fmt.Errorf("%s does not answer: it is the new master: start it, or give another", name)
		}
		if v == nil {
			return 0, fmt.Errorf("%s does not answer: all members of %s must (a dead one is removed first)", name, c.To)
		}
		if !c.From.Has(name) {
			continue
		}
		if v.IsBlank() {
			return 0, errBlank(v, name)
		}
		if err := misfit(v, name); err != nil {
			return 0, err
		}
		m := v.Marker()
		switch {
		case m.Claimed:
			hint := ""
			if !m.Members.Equal(c.From) {
				hint = "if that is the present list, give its URLs; else "
			}
			return 0, fmt.Errorf("%s is being marked for %s: %slock any name with %s, and all its masters up. If that changes nothing: "+
				"quorumlock admit -members, if what it asserts is true", name, m.Members, hint, c.From)
		case !m.Members.Equal(c.From):
			return 0, fmt.Errorf("%s has the members %s (generation %d), not %s: %s",
				name, m.Members, m.Generation, c.From, c.instead(views, m))
		case m.Next.Len() > 0 && !m.Next.Equal(c.To):
			return 0, fmt.Errorf("on %s a change to %s is under way, which comes first: %s", name, m.Next, endChange(m, views))
		}
		generation = max(generation, m.Generation)
	}
	return generation, nil
}

// instead returns what to do when the members in a marker are not From.
func (c Change) instead(views map[string]*membership.View, m scripts.Marker) string {
	added := extraMember(c.To, m.Members)
	switch {
	case m.Next.Len() > 0:
		return "a change is under way: " + endChange(m, views)
	case Finish(views) != "" || areSplit(views) || isLost(m.Members, views):
		return wayOut(views)
	case m.Members.Equal(c.To):
		return "the change is made already"
	case added != "" && c.To.Len() > c.From.Len():
		return fmt.Sprintf("%s is not one of these, and the URL of the new master comes first", added)
	}
	return "give the URLs of that list"
}

// await lets one max lease pass since the last change, and since each member that stays was marked:
// that is how long locks may be held under the previous list. If a master's clock was set back meanwhile,
// its wait starts over. Unless the members may change now, it returns what comes first.
func (c Change) await(views map[string]*membership.View) (first plan, mayChange bool, err error) {
	last := ""
	for _, name := range c.To.Names() {
		v := views[name]
		if !c.From.Has(name) {
			continue
		}
		if wait := Waits(v); wait > first.wait {
			first.wait, last = wait, name
		}
		if v.Marker().Change-v.Now > v.Marker().MaxLease { // longer than any wait: its clock was set back
			first.mark(name, v, v.Write(v.Marker(), scripts.At(v.Marker().Admitted), scripts.In(v.Marker().MaxLease)))
		}
	}
	switch {
	case len(first.marks) > 0:
		return plan{marks: first.marks, again: true}, false, nil
	case first.wait > c.Waits:
		return plan{}, false, fmt.Errorf("the members of %s changed, or it was marked, less than one max lease ago: the next change "+
			"waits for another %v, because locks may still be held with the list before (-wait %[2]v waits for it)", last, round(first.wait))
	}
	first.why = "The last change was less than one max lease ago"
	return first, first.wait == 0, nil
}

// Waits returns how long the next change of the members must wait by a master's view. A clock that was set back
// makes it no longer than a max lease.
func Waits(v *membership.View) time.Duration {
	return min(max(v.Marker().Change-v.Now, 0), v.Marker().MaxLease)
}

// prepare claims the member that is added, which begins its quarantine: a blank one, one that is claimed, or one outside
// all lists. It returns what comes first, unless the member is ready to be announced. The claim has a generation, and so
// says after a restart that the master has a list, if it had one: clients with that one may not found it again.
func (c Change) prepare(name string, v *membership.View, generation uint64) (first plan, isReady bool, err error) {
	m := v.Marker()
	if !v.IsBlank() {
		if err := misfit(v, name); err != nil && !m.Members.Has(m.Member) {
			return plan{}, false, fmt.Errorf("%w; or wipe it (%s), and add it by this name", err, Wipe(name))
		} else if err != nil {
			return plan{}, false, err
		}
	}
	switch {
	case !v.IsBlank() && m.Members.Equal(c.From) && (m.Claimed || m.Next.Equal(c.To)):
		left := m.Quarantine(v.Now)
		if left <= m.MaxLease {
			return plan{wait: left, why: "The new member is in quarantine"}, left == 0, nil
		}
		first.again = true // the master's clock was set back: its quarantine starts over
		first.mark(name, v, v.Write(m, scripts.In(m.MaxLease), scripts.At(m.Change)))
		return first, false, nil
	case v.IsBlank() || m.Claimed || !m.Members.Has(name):
		first.again = true
		claim := scripts.Marker{Claimed: true, Members: c.From, Next: scripts.NewList()}
		if m.Members.Len() > 0 {
			claim.Generation = max(generation, 1)
		}
		first.mark(name, v, v.Write(claim, v.Admission(v.Process.MaxLease), scripts.In(v.Process.MaxLease)))
		return first, false, nil
	}
	return plan{}, false, fmt.Errorf("%s is already the member %s of %s: a master that has been in another list is wiped before "+
		"it joins this one: stop its clients, then %s on it", name, m.Member, m.Members, Wipe(name))
}
