package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/scripts"
)

// A call is immutable, and is sent again long after others. So a tally's room is for one release: a second
// one has its arguments elsewhere. Releases that nobody counts have no room.
func TestATallysRoomIsForOneRelease(t *testing.T) {
	counts := newTally(3, 2)
	release := func(t *Tally, name, owner string) scripts.Call {
		return scripts.ReleaseIn(t.takeRoom(), []scripts.Name{scripts.NewName(name)}, scripts.OwnerOf(owner), 0)
	}
	type call struct {
		scripts.Call
		name, owner string
	}
	calls := []call{
		{release(counts, "a", "x:1"), "a", "x:1"}, {release(counts, "b", "y:2"), "b", "y:2"}, {release(nil, "c", "z:3"), "c", "z:3"},
		{release(nil, "d", "z:4"), "d", "z:4"}, {release(counts, "e", "z:5"), "e", "z:5"},
	}
	for _, c := range calls {
		if owner, names := c.Released(); owner != c.owner || !slices.Equal(names, []string{c.name}) {
			t.Errorf("the release of %q by %q is one of %q by %q", c.name, c.owner, names, owner)
		}
	}
}

// The room has the size of a release of one name.
func TestATallysRoomIsEnough(t *testing.T) {
	all, names, owner := make([]Tally, 101), []scripts.Name{scripts.NewName("a")}, scripts.OwnerOf("x:1")
	i := 0
	if n := testing.AllocsPerRun(100, func() { scripts.ReleaseIn(all[i].takeRoom(), names, owner, 0); i++ }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A release was heard by as many as heard it on every node that had the lock.
func TestTallyCountsTheFewestThatHeard(t *testing.T) {
	for _, c := range []struct {
		replies []nodeReply
		want    int
	}{
		{nil, 0},
		{[]nodeReply{{counts: true, found: true, heard: 3}, {counts: true, found: true, heard: 2}}, 2},
		{[]nodeReply{{counts: true, found: true, heard: 3}, {counts: true, found: true}}, 0},
		{[]nodeReply{{counts: true}, {err: errors.New("down")}, {counts: true, found: true, heard: 3}}, 3},
	} {
		tally := newTally(5, 3)
		for i, r := range c.replies {
			tally.add(i, r)
		}
		if got := tally.HeardBy(); got != c.want {
			t.Errorf("%+v: heard by %d, want %d", c.replies, got, c.want)
		}
	}
}
