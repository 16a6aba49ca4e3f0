package pipeline

import (
	"testing"

	"github.com/quorumlock/quorumlock/scripts"
)

// A full list drops its oldest release, whose key expires first.
func TestAFullListDropsItsOldestRelease(t *testing.T) {
	var list releaseList
	var footprints []*Footprint
	for range maxSetAside + 2 {
		r := releaseOf(len(footprints))
		footprints = append(footprints, r.footprint)
		list.add(r)
	}
	if kept := len(list.requests); kept != maxSetAside {
		t.Fatalf("%d are kept, want %d", kept, maxSetAside)
	}
	for i, r := range list.requests {
		if r.footprint != footprints[i+2] {
			t.Fatalf("place %d of the list is not that of release %d", i, i+2)
		}
	}
}

// A full list keeps the releases of owners that were granted something: they have a key on the server. It
// drops releases of owners without a known grant, even younger ones.
func TestAFullListKeepsTheReleasesOfGrantedLocks(t *testing.T) {
	var list releaseList
	granted := map[*Footprint]bool{}
	for i := range 3 * maxSetAside {
		r := releaseOf(i)
		r.footprint.asks()
		if i%5 == 0 {
			r.footprint.answered(Result{Sent: true, Reply: scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Granted}}})
			granted[r.footprint] = true
		}
		list.add(r)
	}
	if kept := len(list.requests); kept != maxSetAside {
		t.Fatalf("%d are kept, want %d", kept, maxSetAside)
	}
	for _, r := range list.requests {
		delete(granted, r.footprint)
	}
	if len(granted) > 0 {
		t.Errorf("%d releases of granted locks were dropped", len(granted))
	}
}
