//go:build unix

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/integration/pictures"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// seen lists states and texts, without their times.
func seen(spans []pictures.Span) (all string) {
	for _, s := range spans {
		all += s.State.String() + " " + s.Text + "; "
	}
	return all
}

func TestPicturesOfTracks(t *testing.T) {
	var drawn tracks
	m := ofMaster(0)
	drawn.mark(m, "kill")
	drawn.begins(m, timeline.Dead, "dead")
	drawn.ends(m, "dead")
	drawn.ends(m, "frozen") // it was not
	drawn.begins(m, timeline.Hindered, "full")
	drawn.beginsBelow(m, "left", timeline.CutOff, "cut off from left")
	drawn.beginsBelow(m, "right", timeline.Hindered, "slow for right")
	drawn.beginsBelow(m, "right", timeline.Hindered, "loses replies to right")
	drawn.endsBelow(m, "left")
	track := drawn.track(m)
	if got := seen(track.Spans); got != "dead dead; hindered full; " {
		t.Errorf("the master was %s", got)
	}
	const below = "cut off cut off from left; cut off cut off from left, slow for right; " +
		"cut off cut off from left, slow for right, loses replies to right; " +
		"hindered slow for right, loses replies to right; "
	if got := seen(track.Below); got != below {
		t.Errorf("its paths were\n%s, want\n%s", got, below)
	}
	for k, s := range track.Below[1:] {
		if s.From != track.Below[k].To || s.To < s.From {
			t.Errorf("%+v comes after %+v", s, track.Below[k])
		}
	}
	if open := track.Below[3]; open.To != pictures.Open || track.Spans[1].To != pictures.Open ||
		track.Spans[0].To == pictures.Open {
		t.Errorf("what goes on ends, or what ended goes on: %+v, %+v", track.Spans, open)
	}
	at := track.Marks[0].At
	for _, c := range []struct{ from, to, want int64 }{{at - 5, at + 5, at}, {at, at + 5, at + 5}, {at - 5, at - 1,
		at - 1}} {
		if got := drawn.firstMark(m, c.from, c.to); got != c.want {
			t.Errorf("the first mark after %d and until %d, by %d, is %d", c.from, c.to, at, got)
		}
	}
	if other := drawn.track(ofMaster(1)); len(other.Spans)+len(other.Below)+len(other.Marks) > 0 {
		t.Errorf("another master: %+v", other)
	}
}

func TestPicturesOfMarkers(t *testing.T) {
	const now = 1000 * time.Second
	mark := func(change func(*scripts.Marker)) string {
		m := scripts.Marker{Process: scripts.Process{Run: "run", MaxLease: time.Second, Member: "a"}, Generation: 3,
			Members: scripts.NewList("a", "b", "c"), Next: scripts.NewList()}
		change(&m)
		return m.String()
	}
	for want, marker := range map[string]string{
		"up up, list 3":     mark(func(*scripts.Marker) {}),
		"up up, list 3 → 4": mark(func(m *scripts.Marker) { m.Next = scripts.NewList("a", "b", "c", "d") }),
		"in quarantine, grants nothing quarantine, list 3": mark(func(m *scripts.Marker) {
			m.Admitted = now + time.Millisecond
		}),
		"up up": mark(func(m *scripts.Marker) { m.Members, m.Admitted = scripts.NewList(), now }),
		"in quarantine, grants nothing unmarked: grants nothing": mark(func(m *scripts.Marker) { m.Run = "another" }),
	} {
		s := stateOf(marker, "run", now)
		if got := s.State.String() + " " + s.Text; got != want {
			t.Errorf("%q is %q, want %q", marker, got, want)
		}
	}
	if s := stateOf("", "run", now); s.State != timeline.Quarantine {
		t.Errorf("a master without a marker is %v", s.State)
	}
}

// A list that never changes is left out of a picture, one that does is not.
func TestPicturesOfOneList(t *testing.T) {
	for want, texts := range map[string][2]string{
		"up up; in quarantine, grants nothing quarantine; ":                 {"up, list 3", "quarantine, list 3"},
		"up up; in quarantine, grants nothing unmarked: grants nothing; ":   {"up, list 3", "unmarked: grants nothing"},
		"up up, list 3; in quarantine, grants nothing quarantine, list 4; ": {"up, list 3", "quarantine, list 4"},
		"up up, list 3; in quarantine, grants nothing quarantine, list 3 → 4; ": {"up, list 3",
			"quarantine, list 3 → 4"},
	} {
		masters := []pictures.Track{{Spans: []pictures.Span{{State: timeline.Up, Text: texts[0]}}},
			{Spans: []pictures.Span{{State: timeline.Quarantine, Text: texts[1]}}}}
		leaveOutTheOnlyList(masters)
		if got := seen(masters[0].Spans) + seen(masters[1].Spans); got != want {
			t.Errorf("%q are %q, want %q", texts, got, want)
		}
	}
}

// A change is noted at the fault that caused it, else when it is seen; what does not change is one span.
func TestPicturesOfAWatcher(t *testing.T) {
	w := &watcher{cluster: &cluster{}, spans: make([][]pictures.Span, 1)}
	w.tracks.ofLocked(ofMaster(0)).Marks = []pictures.Mark{{At: 125, Text: "FLUSHALL"}}
	up, unmarked := pictures.Span{State: timeline.Up, Text: "up"}, stateOf("", "", 0)
	w.note(0, up, 0, 100)
	w.note(0, up, 100, 120)
	w.note(0, unmarked, 120, 140)
	w.note(0, up, 140, 160)
	var got [][2]int64
	for _, s := range w.of(0, 50) {
		got = append(got, [2]int64{s.From, s.To})
	}
	if len(got) != 3 || got[0] != [2]int64{50, 125} || got[1] != [2]int64{125, 160} || got[2] != [2]int64{160,
		pictures.Open} {
		t.Errorf("the spans are %v", got)
	}
	var none *watcher
	if s := none.of(0, 50); len(s) != 1 || s[0].State != timeline.Up || s[0].Text != "up" {
		t.Errorf("without a watcher: %+v", s)
	}
	none.end()
}

// made is a result with a picture.
func made(kind string, doubleHolds int) *result {
	return &result{Scenario: pairScenario, Kind: kind, Masters: pairMasters, DoubleHolds: doubleHolds,
		Notes: []string{"seen"},
		picture: &timeline.Picture{Title: shownKind(kind), Verdict: "made up", Rows: []timeline.Row{
			{Label: "client 1", Spans: []timeline.Span{{To: time.Second, State: timeline.Holds}}}}},
		views: []view{{"history-1.html", []byte("porcupine's")}}}
}

// The README's pictures are written only if redsync did harm and the library did none.
func TestPicturesOfThePair(t *testing.T) {
	defer func(pair, draw, page string) { *pairTo, *drawTo, *pageTo = pair, draw, page }(*pairTo, *drawTo, *pageTo)
	*drawTo, *pageTo = "", ""
	for name, c := range map[string]struct {
		results []*result
		want    bool
	}{
		"both":                   {[]*result{made(library, 0), made(redsync, 5)}, true},
		"redsync again":          {[]*result{made(library, 0), made(redsync, 0), made(redsync, 2)}, true},
		"redsync did no harm":    {[]*result{made(library, 0), made(redsync, 0)}, false},
		"the library did":        {[]*result{made(library, 1), made(redsync, 5)}, false},
		"redsync was not played": {[]*result{made(library, 0), made("no-quarantine", 5)}, false},
	} {
		*pairTo = filepath.Join(t.TempDir(), "made", "if need be")
		err := (&report{results: c.results}).writePictures()
		for _, file := range []string{"chaos-redsync.svg", "chaos-quorumlock.svg"} {
			_, missing := os.Stat(filepath.Join(*pairTo, file))
			if err != nil || (missing == nil) != c.want {
				t.Errorf("%s: %v, %s: %v", name, err, file, missing)
			}
		}
	}
}

func TestPicturesOnOnePage(t *testing.T) {
	defer func(pair, draw, page string) { *pairTo, *drawTo, *pageTo = pair, draw, page }(*pairTo, *drawTo, *pageTo)
	dir := t.TempDir()
	*pairTo, *drawTo, *pageTo = "", filepath.Join(dir, "each"), filepath.Join(dir, "page", "all.html")
	r := &report{results: []*result{made(library, 0), made(redsync, 5), {Scenario: "without a picture"}}}
	if err := r.writePictures(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(*pageTo)
	if err != nil {
		t.Fatal(err)
	}
	view := "all-histories/restart-amnesia-between-two-holders-3-redsync-history-1.html"
	for _, want := range []string{`href="` + view + `"`, "must not acquire before A releases", "seen", "-chaos.seed=",
		"TestControls/restart amnesia between two holders/redsync"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "page", view))
	if string(text) != "porcupine's" || strings.Count(string(page), "<svg ") != 2 {
		t.Errorf("the view is %q (%v), or there are not two pictures", text, err)
	}
	if found, _ := filepath.Glob(filepath.Join(*drawTo, "*.svg")); len(found) != 2 {
		t.Errorf("pictures %q", found)
	}
}
