package history

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// someHolds returns random holds of a few names in [0, 40), an acquire and a release each. With readers
// some are shared.
func someHolds(rng *rand.Rand, readers bool) (events []Event) {
	for i := range 1 + rng.IntN(7) {
		from := rng.Int64N(30)
		to := from + rng.Int64N(10)
		e := Event{Client: i, Name: []string{"k", "l"}[rng.IntN(2)], Owner: fmt.Sprint(i), Kind: Acquired,
			Token:  uint64(i + 1),
			Shared: readers && rng.IntN(3) == 0, Call: from - 1, Return: from, Deadline: 100}
		events = append(events, e)
		e.Kind, e.Call, e.Return = Released, to, to+1
		events = append(events, e)
	}
	return events
}

// At every instant the owners in the overlaps are those that hold alongside one whom they exclude, found by
// asking each pair. Of several readers alongside a writer, one at least is in an overlap.
func TestOverlapsAreWhatCheckReports(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	found := 0
	for round := range 1500 {
		readers := round%2 == 1
		events := someHolds(rng, readers)
		overlaps, violations := Overlaps(events), 0
		for _, v := range Check(events, Options{HonestClocks: true}) {
			if v.Rule == "overlap" {
				violations++
			}
		}
		testkit.Require(t, violations == len(overlaps), "%d violations, %d overlaps of %v", violations, len(overlaps), events)
		found += violations
		for at := range int64(40) {
			wrong, told := map[string]bool{}, map[string]bool{}
			for i := 0; i < len(events); i += 2 {
				for k := 0; k < len(events); k += 2 {
					a, b := events[i], events[k]
					both := a.Return <= at && at < events[i+1].Call && b.Return <= at && at < events[k+1].Call
					if i != k && both && a.Name == b.Name && !(a.Shared && b.Shared) {
						wrong[a.Owner] = true
					}
				}
			}
			for _, o := range overlaps {
				for _, of := range o.Holds {
					if o.From <= at && at < o.To {
						told[of.Owner] = true
					}
				}
			}
			same := maps.Equal(wrong, told)
			if readers {
				same = (len(wrong) > 0) == (len(told) > 0)
			}
			for owner := range told {
				same = same && wrong[owner]
			}
			testkit.Require(t, same, "at %d %v hold beside others, the overlaps have %v: %v", at, wrong, told, events)
		}
	}
	testkit.Check(t, found >= 300, "only %d overlaps in all", found)
}

// There is a violation for each hold that begins beside two others, of any name.
func TestCrowdsAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 0))
	found := 0
	for range 2000 {
		events := someHolds(rng, false)
		want := 0
		for at := range int64(40) {
			begin, goOn := 0, 0
			for i := 0; i < len(events); i += 2 {
				switch from, to := events[i].Return, events[i+1].Call; {
				case to <= at:
				case from == at:
					begin++
				case from < at:
					goOn++
				}
			}
			want += min(begin, max(0, goOn+begin-2))
		}
		crowds := CheckCrowd(events, 2)
		testkit.Equal(t, len(crowds), want, events)
		found += len(crowds)
	}
	testkit.Check(t, found >= 400, "only %d crowds in all", found)
}

func TestHoldsAreThoseThatCheckJudges(t *testing.T) {
	holds := Holds([]Event{acquired(1, 0, 10), released(1, 20, 25), acquired(2, 30, 40, deadline(55)), acquired(3,
		60, 70, deadline(65)),
		acquired(4, 70, 80, deadline(200)), wasLost(4, 90, 95), acquired(5, 100, Unknown)})
	want := []Held{{1, "k", "a:1", 1, 10, 20, "released"}, {2, "k", "b:1", 2, 40, 55, "deadline"}, {4, "k", "d:1",
		4, 80, 90, "lost"}}
	testkit.Check(t, fmt.Sprint(holds) == fmt.Sprint(want), "got  %v\nwant %v", holds, want)
}
