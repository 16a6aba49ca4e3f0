//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
)

// hold is a client's hold of a name, in milliseconds.
func hold(client int, name string, from, to int64) []history.Event {
	const ms = int64(time.Millisecond)
	acquired := history.Event{Client: client, Name: name, Owner: fmt.Sprintf("%d at %d", client, from), Level: 1, Kind: history.Acquired,
		Token: uint64(1 + from), Call: (from - 5) * ms, Return: from * ms, Deadline: 1e6 * ms}
	released := acquired
	released.Kind, released.Call, released.Return = history.Released, to*ms, (to+5)*ms
	return []history.Event{acquired, released}
}

// pictureOf draws events of three clients.
func pictureOf(events []history.Event, slots int) *timeline.Picture {
	r := &run{cluster: &cluster{}, kind: library, slots: slots, result: &result{Scenario: "made up"}}
	for client := range 3 {
		r.workers = append(r.workers, &worker{plan: contender.Plan{Client: client + 1, Kind: library, URLs: []string{"a"}}})
	}
	return r.draw(events)
}

// red returns for how many milliseconds somebody's row has a clash.
func red(p *timeline.Picture) (sum time.Duration) {
	var all []timeline.Span
	for _, row := range p.Rows {
		all = append(all, row.Spans...)
	}
	for ms := range 200 {
		at := time.Duration(ms) * time.Millisecond
		if slices.ContainsFunc(all, func(s timeline.Span) bool { return s.State == timeline.Clash && s.From <= at && at < s.To }) {
			sum += time.Millisecond
		}
	}
	return sum
}

// Whatever the history, there is red if and only if Check finds two holders, and as much as there were.
func TestPicturesShowWhatIsJudged(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var bad, good int
	for range 400 {
		var events []history.Event
		holders := map[int64]int{}
		for client := 1; client <= 3; client++ {
			from := 1 + rng.Int64N(30)
			to := from + 1 + rng.Int64N(15)
			events = append(events, hold(client, name, from, to)...)
			for at := from; at < to; at++ {
				holders[at]++
			}
		}
		var both time.Duration
		for _, n := range holders {
			if n > 1 {
				both += time.Millisecond
			}
		}
		p := pictureOf(events, 0)
		judged := len(history.Check(events, history.Options{HonestClocks: true})) > 0
		if judged != (both > 0) || red(p) != both || judged != strings.Contains(p.Verdict(), "for "+both.String()) {
			t.Fatalf("judged %v, red for %v of %v, %q", judged, red(p), both, p.Verdict())
		}
		if judged {
			bad++
		} else {
			good++
		}
	}
	if bad < 20 || good < 20 {
		t.Errorf("%d histories with two holders, %d without", bad, good)
	}
}

func TestPicturesOfSlots(t *testing.T) {
	events := append(hold(1, name+" slot 0", 1, 100), hold(2, name+" slot 1", 50, 150)...)
	if p := pictureOf(events, 2); p.Verdict() != "Never more than 2 holders" || p.Rows[1].Spans[0].Text != "slot 1" {
		t.Errorf("%q: %+v", p.Verdict(), p.Rows)
	}
	events = append(events, hold(3, name+" slot 2", 90, 150)...)
	if p := pictureOf(events, 2); red(p) != 10*time.Millisecond || p.Verdict() != "More than 2 holders, for 10ms" {
		t.Errorf("%q: %+v", p.Verdict(), p.Rows)
	}
	events = append(events, hold(3, name+" slot 1", 120, 140)...) // a slot has two holders
	if p := pictureOf(events, 2); p.Verdict() != "More than 2 holders, for 30ms" {
		t.Errorf("%q: %+v", p.Verdict(), p.Rows)
	}
}

func TestPicturesOfMasters(t *testing.T) {
	for want, told := range map[string]node.Report{
		"up":                     {Generation: 1},
		"up, list 3":             {Generation: 3},
		"up, list 3 → 4":         {Generation: 3, Next: []string{"a"}},
		"quarantine":             {Quarantine: time.Millisecond},
		"quarantine, list 3 → 4": {Quarantine: time.Millisecond, Generation: 3, Next: []string{"a"}},
	} {
		s := stateOf(told)
		if s.Text != want || (s.State == timeline.Quarantine) != strings.HasPrefix(want, "quarantine") {
			t.Errorf("%+v is %+v, want %q", told, s, want)
		}
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

func TestPicturesOnOnePage(t *testing.T) {
	defer func(pair, page string) { *pairTo, *pageTo = pair, page }(*pairTo, *pageTo)
	*pairTo, *pageTo = "", filepath.Join(t.TempDir(), "page", "all.html")
	r := &report{results: []*result{made(library, 0), made(redsync, 5), {Scenario: "without a picture"}}}
	if err := r.writePictures(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(*pageTo)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"must not acquire before A releases", "seen &lt;b&gt;", "-chaos.seed=",
		"TestControls/restart amnesia between two holders/redsync", `href="#run-1"`, `id="run-1"`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(string(page), "<svg "); n != 2 {
		t.Errorf("%d pictures", n)
	}
}
