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
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// hold is a client's hold of the lock, in milliseconds.
func hold(client int, from, to int64) []history.Event {
	const ms = int64(time.Millisecond)
	acquired := history.Event{Client: client, Name: name, Owner: fmt.Sprintf("%d at %d", client, from), Depth: 1, Kind: history.Acquired,
		Token: uint64(1 + from), Call: (from - 5) * ms, Return: from * ms, Deadline: 1e6 * ms}
	released := acquired
	released.Kind, released.Call, released.Return = history.Released, to*ms, (to+5)*ms
	return []history.Event{acquired, released}
}

// pictureOf draws events of two clients.
func pictureOf(events []history.Event) *timeline.Picture {
	r := &run{cluster: &cluster{stage: &stage{}}, kind: library, result: &result{Scenario: "made up"}}
	for client := range 2 {
		r.workers = append(r.workers, &worker{plan: contender.Plan{Client: client + 1, Kind: library, URLs: []string{"a"}}})
	}
	return r.draw(events)
}

// Red is what package history judges, and nothing else.
func TestPicturesOfHolds(t *testing.T) {
	for second, want := range map[int64]string{100: "Never two holders of the lock, ", 50: "Two holders of the lock, for 50ms, 1 50-100, 2 50-100, "} {
		p := pictureOf(append(hold(1, 1, 100), hold(2, second, 150)...))
		got := p.Verdict() + ", "
		for i, row := range p.Rows {
			for _, s := range row.Spans {
				if s.State == timeline.Clash {
					got += fmt.Sprintf("%d %d-%d, ", i+1, s.From.Milliseconds(), s.To.Milliseconds())
				}
			}
		}
		testkit.Check(t, got == want, "%q, want %q", got, want)
	}
}

// made is a result with a picture.
func made(kind string, doubleHolds int) *result {
	return &result{Kind: kind, DoubleHolds: doubleHolds, Picture: pictureOf(hold(1, 1, 2))}
}

// The README's pictures are written only if redsync did harm and the library did none.
func TestPicturesOfThePair(t *testing.T) {
	defer func(pair string) { *pairTo = pair }(*pairTo)
	for name, c := range map[string]struct {
		results []*result
		want    bool
	}{
		"both":                   {[]*result{made(library, 0), made(redsync, 5)}, true},
		"redsync again":          {[]*result{made(library, 0), made(redsync, 0), made(redsync, 2)}, true},
		"redsync did no harm":    {[]*result{made(library, 0), made(redsync, 0)}, false},
		"the library did":        {[]*result{made(library, 1), made(redsync, 5)}, false},
		"redsync was not played": {[]*result{made(library, 0)}, false},
	} {
		*pairTo = filepath.Join(t.TempDir(), "made", "if need be")
		err := (&report{results: c.results}).writePair()
		for _, kind := range []string{redsync, library} {
			_, missing := os.Stat(filepath.Join(*pairTo, pairFile(kind)))
			testkit.Check(t, err == nil && (missing == nil) == c.want, "%s: %v, %s: %v", name, err, kind, missing)
		}
	}
}
