package change

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// Abort returns the command that takes back an announced change on the masters that answer. Give
// it the masters of both lists. It fails if one of them has committed the change.
func Abort(given *scripts.List) *Procedure {
	return newProcedure(given.Names(), func(views map[string]*membership.View) (plan, error) { return abort(given, views) })
}

func abort(given *scripts.List, views map[string]*membership.View) (p plan, err error) {
	var announced []*scripts.List
	generation := uint64(0) // the highest that announces
	for _, name := range given.Names() {
		v := views[name]
		if v == nil {
			p.report.NoAnswer = append(p.report.NoAnswer, name)
			continue
		}
		if v.IsBlank() || v.Marker().Claimed || v.Marker().Next.Len() == 0 { // who confirms a claim drops its next members
			continue
		}
		if err := misfit(v, name); err != nil {
			return plan{}, err
		}
		m := v.Marker()
		announced, generation = append(announced, m.Next), max(generation, m.Generation)
		for _, member := range slices.Concat(m.Members.Names(), m.Next.Names()) {
			if !given.Has(member) && !slices.Contains(p.report.NoAnswer, member) {
				p.report.NoAnswer = append(p.report.NoAnswer, member)
			}
		}
		p.report.From, p.report.To = m.Members, m.Next
		m.Next = scripts.NewList()
		p.mark(name, v, v.Write(m, scripts.At(m.Admitted), scripts.In(v.Process.MaxLease)))
	}
	for _, name := range given.Names() {
		for _, next := range announced {
			if v := views[name]; v != nil && hasCommitted(v, next, generation) {
				return plan{}, fmt.Errorf("the change to %s is committed on %s already: %s", next, name, wayOut(views))
			}
		}
	}
	if len(announced) == 0 && areSplit(views) {
		return plan{}, fmt.Errorf("no change is announced, but the masters do not all have one list: %s", wayOut(views))
	}
	return p, nil
}
