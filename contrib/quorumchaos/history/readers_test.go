package history

import "testing"

// Readers may hold at once, with any tokens. A writer alongside one, a token that a writer shares, and a
// reader's token that does not rise after a writer's are violations.
func TestReaders(t *testing.T) {
	hold := func(owner string, shared bool, token uint64, from, to int64) []Event {
		return []Event{
			{Name: "a", Owner: owner, Kind: Acquired, Shared: shared, Token: token, Call: from - 1, Return: from, Deadline: to + 100},
			{Name: "a", Owner: owner, Kind: Released, Call: to, Return: to + 1},
		}
	}
	lowered := func(owner string, at int64) []Event {
		return []Event{{Name: "a", Owner: owner, Kind: Downgraded, Call: at, Return: at + 1}}
	}
	for what, test := range map[string]struct {
		events [][]Event
		broken bool
	}{
		"readers at once":                {[][]Event{hold("r", true, 5, 10, 30), hold("s", true, 6, 15, 40)}, false},
		"readers at once, one token":     {[][]Event{hold("r", true, 5, 10, 30), hold("s", true, 5, 10, 40)}, false},
		"readers in turn, one token":     {[][]Event{hold("r", true, 5, 10, 20), hold("s", true, 5, 30, 40)}, true},
		"a writer after readers":         {[][]Event{hold("r", true, 5, 10, 30), hold("s", true, 6, 15, 40), hold("w", false, 7, 50, 60)}, false},
		"a writer beside a reader":       {[][]Event{hold("r", true, 5, 10, 30), hold("w", false, 7, 20, 60)}, true},
		"a reader beside a writer":       {[][]Event{hold("w", false, 5, 10, 30), hold("r", true, 7, 20, 60)}, true},
		"a writer with a reader's token": {[][]Event{hold("r", true, 5, 10, 20), hold("w", false, 5, 30, 60)}, true},
		"a writer below a reader":        {[][]Event{hold("r", true, 5, 10, 20), hold("w", false, 4, 30, 60)}, true},
		"a reader beside one that was downgraded": {
			[][]Event{hold("w", false, 5, 10, 60), lowered("w", 20), hold("r", true, 7, 30, 40)}, false},
		"a reader before the downgrade": {
			[][]Event{hold("w", false, 5, 10, 60), lowered("w", 50), hold("r", true, 7, 30, 40)}, true},
		"a writer beside one that was downgraded": {
			[][]Event{hold("w", false, 5, 10, 60), lowered("w", 20), hold("x", false, 7, 30, 40)}, true},
	} {
		var events []Event
		for _, of := range test.events {
			events = append(events, of...)
		}
		if found := Check(events, Options{HonestClocks: true}); (len(found) > 0) != test.broken {
			t.Errorf("%s: %v", what, found)
		}
	}
}
