package quorum

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// A call renews at most batchSize locks and batchBytes of names, so that it keeps the server busy
// only for a moment. A single lock may have more.
func TestRenewalsAreBoundedByBytes(t *testing.T) {
	long := strings.Repeat("x", maxNameLen-8)
	for what, c := range map[string]struct {
		locks, names int
		name         string
		most         int // locks in a call
	}{
		"short names": {300, 1, "", batchSize},
		"long names":  {300, 1, long, batchBytes / maxNameLen},
		"many names":  {40, maxNames, "", batchBytes / (maxNames * perName)},
		"both":        {5, maxNames, long, 1},
	} {
		t.Run(what, func(t *testing.T) {
			a, fake := heldHold(t, time.Second)
			one := a.hold
			r, total := newRenewalRound(one.core, fake.Now()), 0
			for i := range c.locks {
				var names []string
				for k := range c.names {
					names = append(names, fmt.Sprint(c.name, i, " ", k))
				}
				h := newHold(one.core, one.set, scriptNames(names))
				h.phase, h.deadline = held, clock.Instant(1<<62)
				for i := range h.votes {
					h.votes[i].until = h.deadline
				}
				r.addLocked(h)
			}
			largest := 0
			for _, b := range r.batches {
				total += len(b.votes)
				largest = max(largest, len(b.votes))
				if len(b.votes) != len(b.locks) {
					t.Errorf("%d votes for %d locks", len(b.votes), len(b.locks))
				}
			}
			if total != 3*c.locks || largest > c.most || largest < c.most/2 {
				t.Errorf("%d renewals of %d, at most %d in a call, want %d", total, 3*c.locks, largest, c.most)
			}
		})
	}
}
