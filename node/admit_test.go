package node_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// writeMarker gives the master the marker of its own process, changed as the test wants it.
func writeMarker(t *testing.T, m *redistest.Master, change func(*scripts.Marker)) {
	t.Helper()
	marker := scripts.Marker{Process: scripts.Process{Run: testkit.Info(t, m, "server", "run_id"), MaxLease: time.Hour, Member: nodeName},
		Generation: 7, Members: members, Next: scripts.NewList()}
	change(&marker)
	testkit.Do(t, m, "SET", scripts.MarkerKey, marker.String())
}

// The list must have the master. It is not contacted otherwise.
func TestAdmitMembersWithoutTheMaster(t *testing.T) {
	n := open(t, "redis://127.0.0.1:1")
	for _, list := range [][]string{nil, {}, {"other"}, {nodeName + "x", "a", "b"}} {
		err := operator.AdmitMembers(t.Context(), n, list)
		mustFail(t, n, err, node.ErrInvalid)
		isPermanent(t, err)
	}
	if err := operator.AdmitMembers(t.Context(), n, []string{"a", nodeName, "b"}); err == nil || errors.Is(err, node.ErrInvalid) {
		t.Errorf("a list that has the master: %v, want that it does not answer", err)
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
	four := change.With(three, "n")
	const blank = "no client has used this server"
	claimed := "has begun to mark " + three.String() + ", and has not finished"
	for what, c := range map[string]struct {
		change     func(*scripts.Marker)
		want       operator.Report // of the marker
		quarantine time.Duration
		hazards    []string
	}{
		"marked": {func(w *scripts.Marker) { w.Members = three },
			operator.Report{Member: nodeName, Members: three.Names(), Generation: 7}, 0, nil},
		"in a change": {func(w *scripts.Marker) { w.Members, w.Next = three, four },
			operator.Report{Member: nodeName, Members: three.Names(), Generation: 7, Next: four.Names()}, 0, nil},
		"in quarantine": {func(w *scripts.Marker) { w.Admitted = since(-30 * time.Minute) },
			operator.Report{Member: nodeName, Members: members.Names(), Generation: 7}, 30 * time.Minute, []string{"in quarantine for another "}},
		"its clock was set back": {func(w *scripts.Marker) { w.Admitted = since(-30 * time.Hour) },
			operator.Report{Member: nodeName, Members: members.Names(), Generation: 7}, time.Hour, []string{"in quarantine for another 1h0m0s"}},
		"of another process": {func(w *scripts.Marker) { w.Run = "another" }, operator.Report{}, time.Hour, []string{blank}},
		"claimed": {func(w *scripts.Marker) { w.Members, w.Claimed, w.Admitted = three, true, since(-30*time.Minute) },
			operator.Report{}, 30 * time.Minute, []string{claimed, "in quarantine for another "}},
		"claimed, its quarantine over, not finished": {func(w *scripts.Marker) {
			w.Members, w.Claimed = three, true
		},
			operator.Report{}, time.Minute + time.Millisecond, []string{claimed, "in quarantine for another 1ms"}},
		"admitted": {func(w *scripts.Marker) {
			w.Members, w.Generation, w.Admitted = scripts.NewList(), 0, since(time.Minute)
		},
			operator.Report{}, 0, []string{"an operator admitted it, and no client has marked it since: unless one uses this server within 5"}},
		"admitted for too long": {func(w *scripts.Marker) {
			w.Members, w.Generation, w.Admitted = scripts.NewList(), 0, since(61*time.Minute)
		},
			operator.Report{}, time.Hour, []string{blank}},
		"another member": {func(w *scripts.Marker) { w.Member, w.Members = "z", three },
			operator.Report{Member: "z", Members: three.Names(), Generation: 7, Refused: node.ErrMembership}, 0,
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
	testkit.Do(t, m, "SET", scripts.MarkerKey, "no marker")
	warns(t, check(t, n), blank)
}
