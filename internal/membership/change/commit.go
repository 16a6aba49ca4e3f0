package change

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/scripts"
)

// Commit returns the command that makes the announced members the members. Give it the masters of
// the new list. If the removed master is given too, it is retired.
//
// Members that do not answer, or are blank, are left for a later run. The change must be announced or committed on a
// majority of the new list: with fewer, clients with the old list would go on.
func Commit(given *scripts.List) *Procedure {
	return newProcedure(given.Names(), func(views map[string]*membership.View) (plan, error) {
		p, err := commit(given, views)
		if few := tooFewError(""); errors.As(err, &few) {
			if way := Finish(views); way != "" {
				err = fmt.Errorf("%w. Or %s", err, way)
			}
		}
		return p, err
	})
}

func commit(given *scripts.List, views map[string]*membership.View) (plan, error) {
	to := target(given, views)
	from, err := origin(given, to, views)
	if err != nil {
		return plan{}, err
	}
	p := plan{report: Report{From: from, To: to}}
	var carrying, toWrite []string // carrying: the change is announced or committed there
	generation := uint64(0)
	for _, name := range to.Names() {
		v := views[name]
		switch {
		case v == nil:
			p.report.NoAnswer = append(p.report.NoAnswer, name)
			continue
		case v.IsBlank():
			p.report.Blank = append(p.report.Blank, name)
			continue
		}
		if err := misfit(v, name); err != nil {
			return plan{}, err
		}
		m := v.Marker()
		isFrom := from != nil && m.Members.Equal(from)
		switch {
		case !m.Claimed && m.Members.Equal(to) && m.Next.Len() == 0:
			carrying = append(carrying, name)
			generation = max(generation, m.Generation)
		case !m.Claimed && m.Next.Equal(to): // it has the list from: see origin
			carrying, toWrite = append(carrying, name), append(toWrite, name)
			generation = max(generation, m.Generation+1)
		case isFrom && (m.Claimed && !from.Has(name) || !m.Claimed && m.Next.Len() == 0):
			toWrite = append(toWrite, name)
			generation = max(generation, m.Generation+1)
		case m.Claimed:
			p.report.Blank = append(p.report.Blank, name)
		default:
			return plan{}, errNotAnnounced(name, m, to, views)
		}
	}
	switch {
	case !membership.IsMajority(to, carrying):
		return plan{}, errTooFew(carrying, p.report)
	case from == nil:
		return p, nil // committed wherever a master answers
	}
	if removed := p.retiring(views, from, to); removed != "" {
		toWrite = append(toWrite, removed)
	}
	for _, name := range toWrite {
		v := views[name]
		m := v.Marker()
		m.Claimed, m.Members, m.Next, m.Generation = false, to, scripts.NewList(), generation
		p.mark(name, v, v.Write(m, scripts.At(m.Admitted), scripts.In(v.Process.MaxLease)))
	}
	return p, nil
}

// Pending returns the list that a commit of the given masters would make the members, if none of them has committed
// it; else nil.
func Pending(given *scripts.List, views map[string]*membership.View) *scripts.List {
	to := target(given, views)
	if isAnnounced, isCommitted := Progress(to, views); !isAnnounced || isCommitted {
		return nil
	}
	return to
}

// Progress reports whether a change to the list is announced on a master, and whether a master has committed it.
func Progress(to *scripts.List, views map[string]*membership.View) (isAnnounced, isCommitted bool) {
	generation := uint64(0)
	for _, v := range views {
		if !v.IsBlank() && !v.Marker().Claimed && v.Marker().Next.Equal(to) {
			isAnnounced, generation = true, max(generation, v.Marker().Generation)
		}
	}
	for _, v := range views {
		isCommitted = isCommitted || hasCommitted(v, to, generation)
	}
	return isAnnounced, isCommitted
}

// hasCommitted reports whether a master has committed the change to a list that others announce, in announced as
// their highest generation. A master that was retired in that generation or before has the list from an earlier
// change: the masters returned to it.
func hasCommitted(v *membership.View, to *scripts.List, announced uint64) bool {
	return !v.IsBlank() && !v.Marker().Claimed && v.Marker().Members.Equal(to) &&
		!(IsRetired(v) && v.Marker().Generation <= announced)
}

// target returns the list to commit: the one that was given, or that list without the master that the
// change removes, if that is announced, or the master is retired or has the old list still.
func target(given *scripts.List, views map[string]*membership.View) *scripts.List {
	committed := map[uint64][]string{} // masters that have the given list, by generation
	for _, name := range given.Names() {
		v := views[name]
		if v == nil || v.IsBlank() || v.Marker().Claimed {
			continue
		}
		next := v.Marker().Next
		if next.Equal(given) || extraMember(given, next) != "" {
			return next
		}
		if v.Marker().Members.Equal(given) {
			at := v.Marker().Generation
			committed[at] = append(committed[at], name)
		}
	}
	for _, name := range given.Names() {
		v := views[name]
		if v == nil || v.IsBlank() || v.Marker().Claimed || !v.Marker().Members.Has(name) {
			continue
		}
		left := v.Marker().Members
		last := views[extraMember(given, left)]
		if !isTheRemoved(last, given, left) {
			continue
		}
		if at := last.Marker().Generation; at <= v.Marker().Generation || !membership.IsMajority(given, committed[at]) {
			return left
		}
	}
	return given
}

// isTheRemoved reports whether a master is the one that the change removes: it still has the list from, or is retired
// from it. A master that a change has added also has its list, alongside a member that the commit left behind: target
// tells these apart, by a majority that has committed in a later generation.
func isTheRemoved(v *membership.View, from, to *scripts.List) bool {
	return v != nil && !v.IsBlank() && !v.Marker().Claimed && v.Marker().Next.Len() == 0 &&
		(v.Marker().Members.Equal(from) || v.Marker().Members.Equal(to))
}

// origin returns the list that the change to the list to starts from: the one that masters with the announced change
// have, or else one that a master still has while others have committed. It is nil if all masters that answer have
// committed, or if none has begun.
func origin(given, to *scripts.List, views map[string]*membership.View) (from *scripts.List, err error) {
	isBegun, behind := false, (*scripts.List)(nil)
	for _, name := range given.Names() {
		v := views[name]
		if v == nil || v.IsBlank() || v.Marker().Claimed && v.Marker().Members.Has(name) {
			continue
		}
		m := v.Marker()
		switch {
		case m.Next.Equal(to) && from != nil && !m.Members.Equal(from):
			return nil, fmt.Errorf("%s changes from %s, and others from %s, to %s: members abort with the URLs of all of them "+
				"comes first", name, m.Members, from, to)
		case m.Next.Equal(to):
			isBegun, from = true, m.Members
		case m.Members.Equal(to):
			isBegun = true
		case areNeighbours(m.Members, to):
			behind = m.Members
		}
	}
	if isBegun && from == nil {
		return behind, nil
	}
	if isBegun {
		return from, nil
	}
	for _, name := range to.Names() {
		v := views[name]
		if v == nil {
			continue
		}
		if v.IsBlank() {
			return nil, errBlank(v, name)
		}
		return nil, nil // commit finds what is wrong with this one, or that too few have the change
	}
	return nil, fmt.Errorf("no master of %s answers", to)
}

func errNotAnnounced(name string, m scripts.Marker, to *scripts.List, views map[string]*membership.View) error {
	if m.Next.Len() > 0 {
		return fmt.Errorf("on %s a change to %s is under way, not to %s: %s", name, m.Next, to, endChange(m, views))
	}
	return fmt.Errorf("%s has the members %s (generation %d), and no change to %s is announced there: "+
		"members add or remove comes first. If %s is what you wanted, it is done", name, m.Members, m.Generation, to, m.Members)
}

// retiring returns the removed master, if it is to be marked: it has the members From, and no next
// ones. Its new marker has the members To, without itself, so it accepts nobody and names them
// to clients with an old list. It comes last.
func (p *plan) retiring(views map[string]*membership.View, from, to *scripts.List) string {
	removed := extraMember(from, to)
	v := views[removed] // nil if none is removed
	switch {
	case v == nil || v.IsBlank() || v.Marker().Claimed || misfit(v, removed) != nil:
	case v.Marker().Members.Equal(to):
		return ""
	case v.Marker().Members.Equal(from) && v.Marker().Next.Len() == 0:
		return removed
	}
	p.report.Unretired = removed
	return ""
}

// tooFewError is why the change may not be committed yet.
type tooFewError string

func (e tooFewError) Error() string { return string(e) }

func errTooFew(carrying []string, r Report) error {
	list, hint, abort := r.From, "repeat members add or remove", "; members abort takes the change back, unless a master has committed it"
	if r.From == nil { // all that answer have committed
		list, hint, abort = r.To, "repeat this command", ""
	}
	if blank := strings.Join(r.Blank, ", "); len(r.Blank) > 0 {
		hint = fmt.Sprintf("a client with %s comes first (lock any name), which marks what is blank: %s; then %s", list, blank, hint)
	}
	away := strings.Join(r.NoAnswer, ", ")
	switch {
	case away == "":
	case r.From == nil && len(r.Blank) == 0:
		hint = fmt.Sprintf("start %s and repeat this command", away)
	default:
		hint = fmt.Sprintf("start %s and repeat this command, or %s", away, hint)
	}
	return tooFewError(fmt.Sprintf("the change to %s is on %d of its masters, and must be on %d: %s%s. If none of these works: "+
		"quorumlock admit -members, if what it asserts is true", r.To, len(carrying), quorate.Majority(r.To.Len()).Need, hint, abort))
}
