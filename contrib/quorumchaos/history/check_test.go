package history

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

// acquired is a lock of client 1, 2, ... over "k" with the token of the same number, with the given
// changes.
func acquired(client int, call, ret int64, change ...func(*Event)) Event {
	e := Event{Client: client, Name: "k", Owner: string(rune('a'-1+client)) + ":1", Depth: 1, Kind: Acquired,
		Token: uint64(client), Call: call, Return: ret}
	for _, c := range change {
		c(&e)
	}
	return e
}

func released(client int, call, ret int64, change ...func(*Event)) Event {
	return acquired(client, call, ret, append(change, ofKind(Released))...)
}

func wasLost(client int, call, ret int64, change ...func(*Event)) Event {
	return acquired(client, call, ret, append(change, ofKind(Lost))...)
}

func token(n uint64) func(*Event)    { return func(e *Event) { e.Token = n } }
func deadline(at int64) func(*Event) { return func(e *Event) { e.Deadline = at } }
func depth(n int) func(*Event)       { return func(e *Event) { e.Depth = n } }
func name(s string) func(*Event)     { return func(e *Event) { e.Name = s } }
func owner(s string) func(*Event)    { return func(e *Event) { e.Owner = s } }
func ofKind(k Kind) func(*Event)     { return func(e *Event) { e.Kind = k } }
func shared(e *Event)                { e.Shared = true }

func rules(all []Violation) []string {
	var out []string
	for _, v := range all {
		out = append(out, v.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestCheck(t *testing.T) {
	const day = int64(24 * time.Hour)
	for title, test := range map[string]struct {
		events    []Event
		want      string // the expected rules, with honest clocks
		dishonest string // the expected rules, without honest clocks
	}{
		"nothing":         {},
		"a hold for ever": {events: []Event{acquired(1, 0, 10)}},
		"one after the other": {events: []Event{acquired(1, 0, 10), released(1, 20, 25), acquired(2, 30, 40),
			released(2, 50, 55)}},
		"in any order": {events: []Event{released(2, 50, 55), acquired(2, 30, 40), released(1, 20, 25),
			acquired(1, 0, 10)}},
		"one client waits for the other": {events: []Event{acquired(1, 0, 10), acquired(2, 5, 20), released(1, 20, 25),
			released(2, 30, 31)}},
		"two names at once": {events: []Event{acquired(1, 0, 10), acquired(2, 5, 15, name("l")), released(1, 20, 25),
			released(2, 20, 25, name("l"))}},
		"two names, one owner and token": {events: []Event{acquired(1, 0, 10), acquired(1, 0, 10, name("l")),
			released(1, 20, 25), released(1, 20, 25, name("l"))}},
		"names byte for byte": {events: []Event{acquired(1, 0, 10, name("\xff")), acquired(2, 0, 10, name("\xfe"))}},

		"overlap by 1 ns": {events: []Event{acquired(1, 0, 10), released(1, 21, 25), acquired(2, 5, 20),
			released(2, 50, 55)}, want: "overlap porcupine"},
		"no overlap when an Unlock comes at the instant of the next": {events: []Event{acquired(1, 0, 10),
			released(1, 20, 25), acquired(2, 5, 20), released(2, 50, 55)}},
		"overlap by 1 ns with a deadline": {events: []Event{acquired(1, 0, 10, deadline(21)), acquired(2, 5, 20)},
			want: "overlap porcupine"},
		"a deadline": {events: []Event{acquired(1, 0, 10, deadline(20)), acquired(2, 5, 20)}},
		"a deadline before the release": {events: []Event{acquired(1, 0, 10, deadline(20)), acquired(2, 5, 20),
			released(1, 25, 26), released(2, 30, 31)}},
		"a deadline that renewal moved": {events: []Event{acquired(1, 0, 10, deadline(20)),
			acquired(2, 5, 22, deadline(90)), wasLost(1, 30, 30, deadline(23))}, want: "overlap porcupine"},
		"a deadline told again": {events: []Event{acquired(1, 0, 10, deadline(20)), acquired(1, 0, 10, deadline(30)),
			acquired(2, 5, 25)}, want: "overlap porcupine"},
		"a loss": {events: []Event{acquired(1, 0, 10, deadline(60)), wasLost(1, 20, 70), acquired(2, 5, 20)}},
		"overlap by 1 ns with a loss": {events: []Event{acquired(1, 0, 10, deadline(60)), wasLost(1, 21, 70),
			acquired(2, 5, 20)}, want: "overlap porcupine"},
		"overlap of a third": {events: []Event{acquired(1, 0, 10), acquired(2, 5, 30), released(2, 40, 45),
			acquired(3, 50, 60), released(1, 61, 62)}, want: "overlap porcupine"},
		"an instant within another's hold": {events: []Event{acquired(1, 0, 10), released(1, 30, 31),
			acquired(2, 5, 20), released(2, 20, 20)}, want: "overlap porcupine"},
		"two holds for ever": {events: []Event{acquired(1, 0, 10), acquired(2, 20, day)}, want: "overlap porcupine"},
		"dead on arrival": {events: []Event{acquired(1, 0, 100, deadline(50)), released(1, 110, 111),
			acquired(2, 5, 60), released(2, 200, 201)}},

		"equal tokens": {events: []Event{acquired(1, 0, 10), released(1, 20, 25), acquired(2, 30, 40, token(1)),
			released(2, 50, 55)}, want: "porcupine token", dishonest: "token"},
		"equal tokens long after": {events: []Event{acquired(1, 0, 10), released(1, 20, 25), acquired(2, 30, 40),
			released(2, 50, 55), acquired(3, day, day+1, token(1))}, want: "porcupine token", dishonest: "token"},
		"equal tokens of overlapping calls": {events: []Event{acquired(1, 0, 10), released(1, 20, 25),
			acquired(2, 5, 40, token(1))}, want: "porcupine token", dishonest: "token"},
		"equal tokens, one call unknown": {events: []Event{acquired(1, 0, 10), released(1, 20, 25),
			acquired(2, 5, Unknown, token(1))}, want: "porcupine token", dishonest: "token"},
		"equal tokens of two names": {events: []Event{acquired(1, 0, 10), acquired(2, 30, 40, token(1), name("l"))}},
		"a lower token": {events: []Event{acquired(2, 0, 10), released(2, 20, 25), acquired(1, 30, 40),
			released(1, 50, 55)}, want: "porcupine token", dishonest: "token"},
		"a lower token of an overlapping call, held first": {events: []Event{acquired(2, 0, 30, deadline(99)),
			acquired(1, 0, 10), released(1, 20, 20)}},
		"a lower token of an overlapping call, held later": {events: []Event{acquired(2, 0, 10), released(2, 20, 25),
			acquired(1, 9, 40), released(1, 50, 55)}, want: "porcupine"},
		"no token":         {events: []Event{acquired(1, 0, 10, token(0))}, want: "porcupine token", dishonest: "token"},
		"a token too high": {events: []Event{acquired(1, 0, 10, token(1<<53))}, want: "token", dishonest: "token"},
		"the highest tokens": {events: []Event{acquired(1, 0, 10, token(1<<53-2), deadline(20)),
			acquired(2, 30, 40, token(1<<53-1))}},

		"entered again": {events: []Event{acquired(1, 0, 10), acquired(1, 12, 14, depth(2)),
			acquired(1, 15, 16, depth(3)), released(1, 17, 18, depth(3)), released(1, 19, 20, depth(2)),
			acquired(1, 21, 22, depth(2)), released(1, 30, 31), released(1, 32, 33, depth(2)), acquired(2, 5, 40)}},
		"the inner depth released, and another client enters": {events: []Event{acquired(1, 0, 10),
			acquired(1, 12, 14, depth(2)), released(1, 17, 18, depth(2)), acquired(2, 5, 20), released(1, 30, 31)},
			want: "overlap porcupine"},
		"entered again, the token changed": {events: []Event{acquired(1, 0, 10),
			acquired(1, 12, 14, depth(2), token(2)), released(1, 20, 21)}, want: "porcupine token", dishonest: "token"},
		"entered again after the end": {events: []Event{acquired(1, 0, 10), released(1, 20, 25),
			acquired(1, 26, 27, depth(2))}, want: "porcupine"},
		"entered again during Unlock": {events: []Event{acquired(1, 0, 10), released(1, 20, 25),
			acquired(1, 21, 27, depth(2))}},
		"entered again after a loss was seen": {events: []Event{acquired(1, 0, 10), wasLost(1, 20, 22),
			acquired(1, 23, 24, depth(2))}, want: "porcupine"},
		"entered again past a deadline that was moved unseen": {events: []Event{acquired(1, 0, 10, deadline(20)),
			acquired(1, 23, 24, depth(2))}},
		"a depth skipped": {events: []Event{acquired(1, 0, 10), acquired(1, 12, 14, depth(3))}, want: "porcupine"},
		"a depth given twice": {events: []Event{acquired(1, 0, 10), acquired(1, 12, 14, depth(2)),
			acquired(1, 15, 16, depth(2))}, want: "porcupine"},

		"an unknown outcome": {events: []Event{acquired(1, 0, 10), released(1, 20, 25),
			acquired(2, 12, Unknown, token(0)), acquired(3, 30, 40, token(2))}},
		"an unknown outcome with a token between": {events: []Event{acquired(1, 0, 10), released(1, 20, 25),
			acquired(2, 12, Unknown), acquired(3, 30, 40)}},
		"an unknown outcome with a token from the past": {events: []Event{acquired(2, 0, 10), released(2, 20, 25),
			acquired(1, 12, Unknown)}, want: "porcupine token", dishonest: "token"},
		"an Unlock that did not return": {events: []Event{acquired(1, 0, 10), released(1, 20, Unknown),
			acquired(2, 12, 21), wasLost(2, 30, 30)}},

		"readers at once": {events: []Event{acquired(1, 0, 10, shared), acquired(2, 5, 15, shared), released(1, 30, 31),
			released(2, 40, 41)}},
		"readers at once, one token": {events: []Event{acquired(1, 0, 10, shared), acquired(2, 0, 10, shared, token(1)),
			released(1, 30, 31), released(2, 40, 41)}},
		"readers in turn, one token": {events: []Event{acquired(1, 0, 10, shared), released(1, 20, 21),
			acquired(2, 29, 30, shared, token(1))}, want: "token", dishonest: "token"},
		"a writer after readers": {events: []Event{acquired(1, 0, 10, shared), acquired(2, 5, 15, shared), released(1, 30, 31),
			released(2, 40, 41), acquired(3, 49, 50)}},
		"a writer beside a reader": {events: []Event{acquired(1, 0, 10, shared), acquired(2, 19, 20), released(1, 30, 31)},
			want: "overlap porcupine"},
		"a reader beside a writer": {events: []Event{acquired(1, 0, 10), acquired(2, 19, 20, shared), released(1, 30, 31)},
			want: "overlap porcupine"},
		"a writer with a reader's token": {events: []Event{acquired(1, 0, 10, shared), released(1, 20, 21),
			acquired(2, 29, 30, token(1))}, want: "porcupine token", dishonest: "token"},
		"a writer below a reader": {events: []Event{acquired(2, 0, 10, shared), released(2, 20, 21), acquired(1, 29, 30)},
			want: "porcupine token", dishonest: "token"},
		"a reader beside one that was downgraded": {events: []Event{acquired(1, 0, 10), acquired(1, 20, 21, ofKind(Downgraded)),
			acquired(2, 29, 30, shared), released(2, 40, 41), released(1, 60, 61)}},
		"a reader before the downgrade": {events: []Event{acquired(1, 0, 10), acquired(2, 29, 30, shared), released(2, 40, 41),
			acquired(1, 50, 51, ofKind(Downgraded)), released(1, 60, 61)}, want: "overlap porcupine"},
		"a writer beside one that was downgraded": {events: []Event{acquired(1, 0, 10), acquired(1, 20, 21, ofKind(Downgraded)),
			acquired(2, 29, 30), released(2, 40, 41), released(1, 60, 61)}, want: "overlap porcupine"},

		"a release without an acquire":  {events: []Event{released(1, 0, 10)}, want: "log", dishonest: "log"},
		"a re-entry without an acquire": {events: []Event{acquired(1, 0, 10, depth(2))}, want: "log", dishonest: "log"},
		"an owner used twice": {events: []Event{acquired(1, 0, 10), released(1, 20, 25), acquired(1, 30, 40, token(2))},
			want: "log", dishonest: "log"},
		"returned before it began": {events: []Event{acquired(1, 10, 9)}, want: "log", dishonest: "log"},
		"an unknown kind": {events: []Event{acquired(1, 0, 10), {Name: "k", Owner: "a:1"}}, want: "log",
			dishonest: "log"},
		"a fault of one name only": {events: []Event{acquired(1, 0, 10), acquired(2, 0, 10, name("l"), token(0))},
			want: "porcupine token", dishonest: "token"},
	} {
		t.Run(title, func(t *testing.T) {
			for honest, want := range map[bool]string{true: test.want, false: test.dishonest} {
				events := slices.Clone(test.events)
				got := Check(events, Options{HonestClocks: honest})
				testkit.Check(t, strings.Join(rules(got), " ") == want,
					"honest clocks %v: %v, want %q", honest, got, want)
				testkit.Check(t, slices.Equal(events, test.events), "Check changed the events")
			}
		})
	}
}

// A name with many locks whose ends are unknown is decided in a time that a test can afford.
func TestManyWaiters(t *testing.T) {
	var events []Event
	for i := range int64(3000) {
		o := owner("waiter:" + time.Duration(i).String())
		events = append(events, acquired(int(i%50), max(0, 10*i-500), 10*i, o, token(uint64(i+1)), deadline(10*i+9)))
	}
	got := Check(events, Options{HonestClocks: true})
	testkit.Check(t, len(got) == 0, "found %v", got)
}

var samples = []Event{
	{Client: 3, Name: "k", Owner: "a:1", Depth: 1, Kind: Acquired, Token: 1<<53 - 1, Call: -5, Return: 1<<62 + 1,
		Deadline: Unknown},
	{Name: "a\x00b\xff\n", Owner: "b:2", Kind: Released, Return: Unknown},
	{Name: "a\x00b\xfe\n", Owner: "\"", Depth: 2, Kind: Lost},
	{},
}

func TestEventsSurviveJSON(t *testing.T) {
	valid := samples[:3]
	var file bytes.Buffer
	testkit.Must(t, WriteJSON(&file, valid...))
	testkit.Equal(t, strings.Count(file.String(), "\n"), len(valid), "lines")
	whole := file.String()
	got, err := ReadJSON(&file)
	testkit.Check(t, err == nil && slices.Equal(got, valid), "read back %+v (%v), want %+v", got, err, valid)

	// A process that is killed may leave a last line without an end, complete or not.
	for cut := range len(whole) {
		got, err := ReadJSON(strings.NewReader(whole[:cut]))
		if want := strings.Count(whole[:cut], "\n"); err != nil || !slices.Equal(got, valid[:want]) {
			t.Fatalf("cut at %d: %d events (%v), want %d", cut, len(got), err, want)
		}
	}
}

func TestJSONOfNoEvent(t *testing.T) {
	testkit.Check(t, WriteJSON(&bytes.Buffer{}, samples[3]) != nil, "an event without a kind was written")
	var first bytes.Buffer
	testkit.Must(t, WriteJSON(&first, samples[0]))
	for _, bad := range []string{"\n", "{}{}\n", `{"Kind":"gained"}` + "\n", `{"Token":-1}` + "\n", "[]\n"} {
		got, err := ReadJSON(strings.NewReader(first.String() + bad + first.String()))
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "line 2") && len(got) == 1,
			"%q: %d events and %v, want 1 and an error that names line 2", bad, len(got), err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
