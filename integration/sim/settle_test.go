package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/scripts"
)

// settle finishes the change that is under way, and gives all clients the masters' list. If
// masters have forgotten and no client may mark them, it admits them.
func (o *operator) settle() {
	w, p := o.world, o.world.plan
	w.lists.setSure()
	for _, m := range w.Masters { // those that it found dead, too
		m.Start()
	}
	var rolled time.Time
	unmarked := time.Now() // since when clients have not marked a master that they may mark
	tries := 0
	for begun := time.Now(); w.ctx.Err() == nil; o.rest(0.2) {
		ctx, end := o.within(w.ctx, 4*p.timeout+2*p.lease)
		views := o.look(ctx)
		s := majorityState(views)
		want := listOf(p.lists.first)
		switch {
		case s == nil:
			want = cmp.Or(newestList(views), want)
		case s.announced:
			want = s.next
		default:
			want = s.members
		}
		old, running := false, w.lists.rolling.Load() == 0
		for _, m := range w.clients() {
			old = old || !m.nextList().Equal(want)
			running = running && listOf(m.current().list).Equal(want)
		}
		if !mayMark(want, views) {
			unmarked = time.Now()
		}
		switch {
		case time.Since(unmarked) > 4*p.lease+2*time.Second:
			w.fail("unmarked: clients with %s may mark a master, and have not", want)
			end()
			return
		case time.Since(begun) > 6*p.lease+2*time.Second:
			if tries++; tries > 3 || !p.forgets() && !o.foundDead {
				w.fail("stranded: the masters' list does not come out: %+v", s)
				end()
				return
			}
			o.admit(ctx, listOf(p.lists.first))
			begun = time.Now()
		case time.Since(rolled) > p.lease && (old || s == nil || !s.whole): // new processes mark what is blank
			rolled = time.Now()
			for _, m := range w.clients() {
				w.roll(m, want, false)
			}
		case s != nil && s.behind:
			o.commit(ctx, s.members)
		case s != nil && s.next != nil && !s.announced:
			o.announce(ctx, change.Change{From: s.members, To: s.next})
		case s != nil && s.next != nil:
			o.commit(ctx, s.next)
		case s != nil && s.whole && !s.waiting && running:
			w.trace.add("operator  all have the list %s", s.members)
			end()
			return
		}
		end()
	}
}

// mayMark reports whether clients with the list may mark a master, whatever was forgotten: it is blank or claimed for that
// list, and a majority accepts the list, or all masters have it.
func mayMark(list *scripts.List, views map[string]*membership.View) bool {
	accepting, having, left := 0, 0, false
	for _, name := range list.Names() {
		v := views[name]
		if v == nil {
			continue
		}
		if v.Has(list) && !v.Marker().Next.Equal(list) {
			having++
		}
		switch v.Relation(list) {
		case membership.Accepts:
			accepting++
		case membership.Blank:
			left = true
		case membership.Claimed:
			left = left || v.Marker().Members.Equal(list)
		}
	}
	return left && (2*accepting > list.Len() || having == list.Len())
}

// newestList returns the list of the highest generation that a master had, or is claimed for. After all have restarted at
// once, with their data, only clients with that list confirm it.
func newestList(views map[string]*membership.View) (list *scripts.List) {
	newest := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(views)) {
		if m := views[name].Marker(); m.Members.Has(name) && m.Generation > newest {
			list, newest = m.Members, m.Generation
		}
	}
	return list
}

// admit stops all clients for one max lease, and admits the masters with the list. It wipes the
// others.
func (o *operator) admit(ctx context.Context, list *scripts.List) {
	w, p := o.world, o.world.plan
	w.count("admitted at last")
	w.trace.add("operator  stops all clients, and admits %s", list)
	for _, m := range w.clients() {
		m.setList(mastersOf(list))
		m.current().own.Kill()
	}
	time.Sleep(p.lease + p.lease/10)
	o.turn()
	calls := map[string][]scripts.Call{}
	for name, v := range o.look(ctx) {
		if !list.Has(name) {
			w.Masters[masterOf(name)].Flush()
		} else if call, err := change.Admit(v, list); err != nil {
			w.fail("operator: %s: %v", name, err)
		} else {
			calls[name] = []scripts.Call{call}
		}
	}
	o.call(ctx, calls)
	for _, m := range w.clients() {
		w.roll(m, list, true)
	}
}
