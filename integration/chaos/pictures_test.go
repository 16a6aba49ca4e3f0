//go:build unix

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// hold is a client's hold of a name, in milliseconds.
func hold(client int, name string, from, to int64) []history.Event {
	const ms = int64(time.Millisecond)
	acquired := history.Event{Client: client, Name: name, Owner: fmt.Sprintf("%d at %d", client, from), Depth: 1, Kind: history.Acquired,
		Token: uint64(1 + from), Call: (from - 5) * ms, Return: from * ms, Deadline: 1e6 * ms}
	released := acquired
	released.Kind, released.Call, released.Return = history.Released, to*ms, (to+5)*ms
	return []history.Event{acquired, released}
}

// pictureOf draws events of three clients.
func pictureOf(events []history.Event, slots int) *timeline.Picture {
	r := &run{cluster: &cluster{stage: &stage{Notes: &backstage.Notes{Tracks: &timeline.Recorder{Now: now}}}}, kind: library, slots: slots, result: &result{Scenario: "made up"}}
	for client := range 3 {
		r.workers = append(r.workers, &worker{plan: contender.Plan{Client: client + 1, Kind: library, URLs: []string{"a"}}})
	}
	return r.draw(events)
}

// Red is what package history judges, and nothing else.
func TestPicturesOfHolds(t *testing.T) {
	slots := append(hold(1, name+" slot 0", 1, 100), hold(2, name+" slot 1", 50, 150)...)
	crowd := append(slots[:4:4], hold(3, name+" slot 2", 90, 150)...)
	for want, c := range map[string]struct {
		events []history.Event
		slots  int
		clash  string
	}{
		"Never two holders of the lock":     {append(hold(1, name, 1, 100), hold(2, name, 100, 150)...), 0, ""},
		"Two holders of the lock, for 50ms": {append(hold(1, name, 1, 100), hold(2, name, 50, 150)...), 0, "1 50-100, 2 50-100, "},
		"Never more than 2 holders":         {slots, 2, ""},
		"More than 2 holders, for 10ms":     {crowd, 2, "1 90-100, 2 90-100, 3 90-100, "},
		"More than 2 holders, for 30ms": {append(crowd, hold(3, name+" slot 1", 120, 140)...), 2, // a slot has two
			"1 90-100, 2 120-140, 2 90-100, 2 120-140, 3 120-140, 3 90-100, 3 120-140, 3 120-140, "},
	} {
		p, clash := pictureOf(c.events, c.slots), ""
		for i, row := range p.Rows {
			for _, s := range row.Spans {
				if s.State == timeline.Clash {
					clash += fmt.Sprintf("%d %d-%d, ", i+1, s.From.Milliseconds(), s.To.Milliseconds())
				}
			}
		}
		if p.Verdict() != want || clash != c.clash {
			t.Errorf("%q, %s: want %q, %s", p.Verdict(), clash, want, c.clash)
		}
	}
	if text := pictureOf(slots, 2).Rows[1].Spans[0].Text; text != "slot 1" {
		t.Errorf("a hold of slot 1 is called %q", text)
	}
}

// made is a result with a picture.
func made(kind string, doubleHolds int) *result {
	return &result{Scenario: pairScenario, Kind: kind, Masters: pairMasters, DoubleHolds: doubleHolds, Notes: []string{"seen <b>"},
		Picture: pictureOf(hold(1, name, 1, 2), 0)}
}

// The README's pictures are written only if redsync did harm and the library did none.
func TestPicturesOfThePair(t *testing.T) {
	defer func(pair, page string) { *pairTo, *pageTo = pair, page }(*pairTo, *pageTo)
	*pageTo = ""
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
