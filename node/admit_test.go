package node_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// writeMarker gives the master the marker of its own process, changed as the test wants it.
func writeMarker(t *testing.T, m *redistest.Master, change func(*scripts.Marker)) {
	t.Helper()
	marker := scripts.Marker{Process: scripts.Process{Run: stat(t, m, "server", "run_id"), MaxLease: time.Hour, Member: nodeName},
		Generation: 7, Members: members, Next: scripts.NewList()}
	change(&marker)
	mustDo(t, m, "SET", scripts.MarkerKey, marker.String())
}

// readMarker returns the master's marker.
func readMarker(t *testing.T, m *redistest.Master) scripts.Marker {
	t.Helper()
	text, ok := mustDo(t, m, "GET", scripts.MarkerKey).([]byte)
	marker, err := scripts.ParseMarker(string(text))
	if !ok || err != nil {
		t.Fatalf("the marker is %q: %v", text, err)
	}
	return marker
}

// The operator's list counts, whatever the master accepted before, and its quarantine is over.
func TestAdmitMembers(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		n := openQuarantined(t, m.URL(), time.Hour)
		for what, before := range map[string]struct {
			write      func()
			generation uint64
		}{
			"blank":               {func() { mustDo(t, m, "DEL", scripts.MarkerKey) }, 1},
			"of the same members": {func() { writeMarker(t, m, func(*scripts.Marker) {}) }, 7},
			"of other members": {func() {
				writeMarker(t, m, func(w *scripts.Marker) { w.Members = members.With("other") })
			}, 8},
			"in a change": {func() {
				writeMarker(t, m, func(w *scripts.Marker) { w.Members, w.Next = members.With("other"), members })
			}, 8},
			"claimed": {func() { writeMarker(t, m, func(w *scripts.Marker) { w.Claimed = true }) }, 8},
			"in quarantine": {func() {
				writeMarker(t, m, func(w *scripts.Marker) {
					w.Admitted = time.Duration(time.Now().Add(time.Hour).UnixNano()).Truncate(time.Millisecond)
				})
			}, 7},
			"of another process": {func() {
				writeMarker(t, m, func(w *scripts.Marker) { w.Run, w.Members = "another", members.With("other") })
			}, 1},
			"another member of another deployment": {func() {
				writeMarker(t, m, func(w *scripts.Marker) { w.Member, w.Members = "other", scripts.NewList("other") })
			}, 8},
		} {
			before.write()
			must(t, n.AdmitMembers(t.Context(), []string{nodeName}))
			r := await(t, start(n, "key", acquireFor(time.Hour, what, "o:1"), nil)) // nothing marks it
			if !isGranted(r) {
				t.Errorf("%s: answered %+v, %v", what, r.Reply, r.Err)
			}
			marker := readMarker(t, m)
			if marker.Claimed || marker.Member != nodeName || !marker.Members.Equal(members) || marker.Next.Len() != 0 || marker.Generation != before.generation {
				t.Errorf("%s: the marker is %q, want generation %d", what, marker, before.generation)
			}
			if changed := before.generation != 7; changed != (marker.Change > 0) {
				t.Errorf("%s: the members may change again at %v", what, marker.Change)
			}
		}
	})
}

// The list must have the master. It is not contacted otherwise.
func TestAdmitMembersWithoutTheMaster(t *testing.T) {
	n := open(t, "redis://127.0.0.1:1")
	for _, list := range [][]string{nil, {}, {"other"}, {nodeName + "x", "a", "b"}} {
		err := n.AdmitMembers(t.Context(), list)
		mustFail(t, n, err, node.ErrInvalid)
		isPermanent(t, err)
	}
	if err := n.AdmitMembers(t.Context(), []string{"a", nodeName, "b"}); err == nil || errors.Is(err, node.ErrInvalid) {
		t.Errorf("a list that has the master: %v, want that it does not answer", err)
	}
}

// Admit keeps the list, the generation and a change that is under way. It refuses a master that its
// clients know by another name, and makes it known to none.
func TestAdmitKeepsTheMembers(t *testing.T) {
	m := startEmbedded(t)
	n := openQuarantined(t, m.URL(), time.Hour)
	list, next := members.With("a"), members.With("a").With("b")
	writeMarker(t, m, func(w *scripts.Marker) {
		w.Members, w.Next, w.Change, w.MaxLease = list, next, time.Hour, time.Minute
	})
	must(t, n.Admit(t.Context()))
	marker := readMarker(t, m)
	if !marker.Members.Equal(list) || !marker.Next.Equal(next) || marker.Generation != 7 || marker.Change != time.Hour || marker.MaxLease != time.Hour {
		t.Errorf("the marker is %q", marker)
	}

	writeMarker(t, m, func(w *scripts.Marker) { w.Member, w.Members = "other", list.With("other") })
	before := readMarker(t, m).String()
	err := n.Admit(t.Context())
	mustFail(t, n, err, node.ErrMembership)
	isPermanent(t, err)
	if after := readMarker(t, m).String(); after != before {
		t.Errorf("the marker was %q and is %q", before, after)
	}
}

// What Check says of a master by its marker.
func TestCheckOfTheMarker(t *testing.T) {
	m := startEmbedded(t)
	n := openQuarantined(t, m.URL(), time.Hour)
	since := func(ago time.Duration) time.Duration {
		return time.Duration(time.Now().Add(-ago).UnixNano()).Truncate(time.Millisecond)
	}
	three := scripts.NewList("a", nodeName, "z")
	four := three.With("n")
	const blank = "no client has used this server"
	claimed := "has begun to mark " + three.String() + ", and has not finished"
	for what, c := range map[string]struct {
		change     func(*scripts.Marker)
		want       node.Report // of the marker
		quarantine time.Duration
		hazards    []string
	}{
		"marked": {func(w *scripts.Marker) { w.Members = three },
			node.Report{Member: nodeName, Members: three.Names(), Generation: 7}, 0, nil},
		"in a change": {func(w *scripts.Marker) { w.Members, w.Next = three, four },
			node.Report{Member: nodeName, Members: three.Names(), Generation: 7, Next: four.Names()}, 0, nil},
		"in quarantine": {func(w *scripts.Marker) { w.Admitted = since(-30 * time.Minute) },
			node.Report{Member: nodeName, Members: members.Names(), Generation: 7}, 30 * time.Minute, []string{"in quarantine for another "}},
		"its clock was set back": {func(w *scripts.Marker) { w.Admitted = since(-30 * time.Hour) },
			node.Report{Member: nodeName, Members: members.Names(), Generation: 7}, time.Hour, []string{"in quarantine for another 1h0m0s"}},
		"of another process": {func(w *scripts.Marker) { w.Run = "another" }, node.Report{}, time.Hour, []string{blank}},
		"claimed": {func(w *scripts.Marker) { w.Members, w.Claimed, w.Admitted = three, true, since(-30*time.Minute) },
			node.Report{}, 30 * time.Minute, []string{claimed, "in quarantine for another "}},
		"claimed, its quarantine over, not finished": {func(w *scripts.Marker) {
			w.Members, w.Claimed = three, true
		},
			node.Report{}, time.Minute + time.Millisecond, []string{claimed, "in quarantine for another 1ms"}},
		"admitted": {func(w *scripts.Marker) {
			w.Members, w.Generation, w.Admitted = scripts.NewList(), 0, since(time.Minute)
		},
			node.Report{}, 0, []string{"an operator admitted it, and no client has marked it since: unless one uses this server within 5"}},
		"admitted for too long": {func(w *scripts.Marker) {
			w.Members, w.Generation, w.Admitted = scripts.NewList(), 0, since(61*time.Minute)
		},
			node.Report{}, time.Hour, []string{blank}},
		"another member": {func(w *scripts.Marker) { w.Member, w.Members = "z", three },
			node.Report{Member: "z", Members: three.Names(), Generation: 7, Refused: node.ErrMembership}, 0,
			[]string{"refused as a node: the lists of masters differ: this master is the member z of " + three.String() + ", and is named " + nodeName}},
	} {
		writeMarker(t, m, c.change)
		got := check(t, n)
		if got.Member != c.want.Member || !slices.Equal(got.Members, c.want.Members) || got.Generation != c.want.Generation ||
			!slices.Equal(got.Next, c.want.Next) || !errors.Is(got.Refused, c.want.Refused) || got.MaxLease != time.Hour {
			t.Errorf("%s: %+v", what, got)
		}
		if got.Quarantine > c.quarantine || got.Quarantine < c.quarantine-time.Minute {
			t.Errorf("%s: quarantine of %v, want %v", what, got.Quarantine, c.quarantine)
		}
		warns(t, got, c.hazards...)
	}
	mustDo(t, m, "SET", scripts.MarkerKey, "no marker")
	warns(t, check(t, n), blank)
}
