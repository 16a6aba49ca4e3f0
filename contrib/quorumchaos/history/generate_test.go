package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// generated is a correct history of one name, as clients of a sound lock make it: they wait for
// each other, hold, enter again, and release, lose, or are killed; some calls never return. It has
// one list of events for each owner, in the order of their holds, with the acquire first.
func generated(r *rand.Rand, name string, holders int) [][]Event {
	var all [][]Event
	now, last := int64(1000), uint64(1_800_000_000_000_000)
	for i := range holders {
		last += 1 + r.Uint64N(3)
		client := r.IntN(4)
		e := Event{Client: client, Name: name, Owner: fmt.Sprintf("%d:%d", client, i), Level: 1, Kind: Acquired,
			Token: last}
		if r.IntN(8) == 0 { // killed during Lock; its grant, if any, is over before the next one
			e.Call, e.Return = now-r.Int64N(500), Unknown
			if r.IntN(2) == 0 {
				e.Token = 0
			}
			all = append(all, []Event{e})
			continue
		}
		e.Call, e.Return = now-r.Int64N(500), now+r.Int64N(20)
		now = e.Return
		events := []Event{e}
		for range r.IntN(3) {
			deepest := 1 + r.IntN(3)
			for level := 2; level <= deepest; level++ {
				again := Event{Client: client, Name: name, Owner: e.Owner, Level: level, Kind: Acquired, Token: last,
					Call: now + r.Int64N(3)}
				again.Return = again.Call + r.Int64N(3)
				now = again.Return
				events = append(events, again)
			}
			for level := deepest; level >= 2; level-- {
				left := Event{Client: client, Name: name, Owner: e.Owner, Level: level, Kind: Released,
					Call: now + r.Int64N(3)}
				left.Return = left.Call + r.Int64N(3)
				now = left.Return
				events = append(events, left)
			}
		}
		now += r.Int64N(100)
		ended := Event{Client: client, Name: name, Owner: e.Owner, Level: 1, Call: now, Return: now + r.Int64N(200)}
		if r.IntN(10) == 0 {
			ended.Return = Unknown
		}
		switch r.IntN(4) {
		case 0:
			ended.Kind = Lost
			events = append(events, ended)
		case 1: // killed: only its deadline is known
			events[r.IntN(len(events))].Deadline = now
		case 2: // the deadline passed, and the holder unlocked all the same
			ended.Kind, ended.Deadline, ended.Call, ended.Return = Released, now, now+5, now+300
			events = append(events, ended)
		default:
			ended.Kind = Released
			events[0].Deadline = now + r.Int64N(1000)
			events = append(events, ended)
		}
		all = append(all, events)
		now += r.Int64N(3) // 0: the next hold may begin in the same instant
	}
	return all
}

func flatten(r *rand.Rand, names ...[][]Event) []Event {
	var all []Event
	for _, owners := range names {
		all = append(all, slices.Concat(owners...)...)
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// faults damage a correct history. Each gets the events of two owners that held one after the
// other, and returns the rule that must find the damage, "" when the fault cannot be applied to
// these two.
var faults = map[string]func(r *rand.Rand, first, second []Event) string{
	"overlap by 1 ns": func(_ *rand.Rand, first, second []Event) string {
		end := endOf(first)
		if end-1 <= first[0].Return {
			return ""
		}
		second[0].Return = end - 1
		second[0].Call = min(second[0].Call, end-1)
		return "overlap"
	},
	"the same token": func(_ *rand.Rand, first, second []Event) string {
		setToken(second, first[0].Token)
		return "token"
	},
	"a lower token": func(r *rand.Rand, first, second []Event) string {
		// The second owner waited, so only the order of the holds tells.
		if second[0].Call <= first[0].Return {
			setToken(second, first[0].Token-1-r.Uint64N(1000))
			return "porcupine"
		}
		setToken(second, first[0].Token-1-r.Uint64N(1000))
		return "token"
	},
	"another token within": func(_ *rand.Rand, first, _ []Event) string {
		for i := range first[1:] {
			if e := &first[i+1]; e.Kind == Acquired {
				e.Token++
				return "token"
			}
		}
		return ""
	},
	"the acquire is missing": func(_ *rand.Rand, first, _ []Event) string {
		first[0].Name = "another name"
		if len(first) == 1 {
			return ""
		}
		return "log"
	},
	"an owner for two": func(_ *rand.Rand, first, second []Event) string {
		for i := range second {
			second[i].Owner = first[0].Owner
		}
		return "log"
	},
}

func setToken(events []Event, token uint64) {
	for i := range events {
		if events[i].Kind == Acquired {
			events[i].Token = token
		}
	}
}

// endOf is a naive reading of Event's documentation.
func endOf(events []Event) int64 {
	end, deadline := never, int64(0)
	for _, e := range events {
		deadline = max(deadline, e.Deadline)
		if e.Level == 1 && e.Kind != Acquired {
			end = min(end, e.Call)
		}
	}
	if deadline != 0 {
		end = min(end, deadline)
	}
	return end
}

func TestGeneratedHistories(t *testing.T) {
	found := map[string]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		k, l := generated(r, "k", 2+r.IntN(20)), generated(r, "l\xff", r.IntN(20))
		for _, honest := range []bool{true, false} {
			if got := Check(flatten(r, k, l), Options{HonestClocks: honest}); len(got) > 0 {
				t.Fatalf("seed %d: found %v in a correct history", seed, got)
			}
		}
		for title, damage := range faults {
			r := rand.New(rand.NewPCG(seed, 2))
			damaged := make([][]Event, len(k))
			for i := range k {
				damaged[i] = slices.Clone(k[i])
			}
			seen := slices.DeleteFunc(slices.Clone(damaged),
				func(events []Event) bool { return events[0].Return == Unknown })
			if len(seen) < 2 {
				continue
			}
			at := r.IntN(len(seen) - 1)
			want := damage(r, seen[at], seen[at+1])
			if want == "" {
				continue
			}
			found[title]++
			got := Check(flatten(r, damaged, l), Options{HonestClocks: true})
			if !slices.Contains(rules(got), want) {
				t.Fatalf("seed %d, %s at %d: found %v, want %s", seed, title, at, got, want)
			}
			for _, v := range got {
				if v.Rule != "log" && !strings.HasPrefix(v.Detail, `"k"`) {
					t.Errorf("seed %d, %s: a violation of the other name: %v", seed, title, v)
				}
			}
		}
	}
	for title := range faults {
		if found[title] < 30 {
			t.Errorf("%q was tried only %d times", title, found[title])
		}
	}
	t.Log(found)
}
