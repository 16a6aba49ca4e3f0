package pipeline

import "testing"

// A full list drops its oldest release, whose key expires first.
func TestAFullListDropsItsOldestRelease(t *testing.T) {
	var list releaseList
	var claims []*Claim
	for range maxSetAside + 2 {
		r := releaseOf(len(claims))
		claims = append(claims, r.claim)
		list.add(r)
	}
	if kept := len(list.requests); kept != maxSetAside {
		t.Fatalf("%d are kept, want %d", kept, maxSetAside)
	}
	for i, r := range list.requests {
		if r.claim != claims[i+2] {
			t.Fatalf("place %d of the list is not that of release %d", i, i+2)
		}
	}
}
