package roster

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
)

// The masters of a new deployment wait in quarantine together. One line of the log says so, instead
// of one for each node and one for the calls that wait, and one line says that it is over.

// LogQuarantinesLater keeps the nodes from logging their quarantines until release is called. Its
// argument is the roster if that has logged them for all nodes, else nil.
func LogQuarantinesLater(nodes []*node.Node) (release func(saidBy *Roster)) {
	releases := make([]func(func()), len(nodes))
	for i, n := range nodes {
		releases[i] = inside.Of(n).Log.QuarantineLater()
	}
	return func(saidBy *Roster) {
		for i, release := range releases {
			if saidBy == nil {
				release(nil)
			} else {
				release(func() { saidBy.noteOver(i) })
			}
		}
	}
}

// noteOver notes that a node's first quarantine is over, and logs it once when so many grant as a
// lock needs.
func (r *Roster) noteOver(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants[node] = true
	if len(r.grants) == r.opts.Need && !r.saidOver && !r.isClosed() {
		r.saidOver = true
		r.opts.Events.Post(func() { r.opts.Log().Info("quorumlock: new masters grant now") })
	}
}

// noteNew reports whether all masters are new, and logs it once.
func (r *Roster) noteNew(s *Survey) bool {
	if !s.AllNew() {
		return false
	}
	left := membership.ClaimWaits(s.views, s.list)
	r.newUntil.Store(int64(r.clock.Now().Add(left)))
	if !r.saidNew.Swap(true) {
		r.opts.Events.Post(func() { // a logger may block
			r.opts.Log().Info("quorumlock: new masters: they grant when left is over; quorumlock admit -yes URL... ends the wait",
				"left", left.Round(100*time.Millisecond).String())
		})
	}
	return true
}

// WaitsForNew reports whether all masters were new, and their first quarantine, which the log has
// announced, is not over.
func (r *Roster) WaitsForNew() bool {
	return r.clock.Now().Before(clock.Instant(r.newUntil.Load()))
}
