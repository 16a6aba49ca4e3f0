package history

import "testing"

func TestCheckCrowd(t *testing.T) {
	hold := func(name, owner string, from, to int64) []Event {
		return []Event{{Name: name, Owner: owner, Level: 1, Kind: Acquired, Token: 1, Call: from - 1, Return: from, Deadline: 1000},
			{Name: name, Owner: owner, Level: 1, Kind: Released, Call: to, Return: to + 1}}
	}
	join := func(all ...[]Event) (events []Event) {
		for _, one := range all {
			events = append(events, one...)
		}
		return events
	}
	for _, c := range []struct {
		name   string
		events []Event
		want   int
	}{
		{"nobody", nil, 0},
		{"two of two", join(hold("0", "a", 10, 20), hold("1", "b", 15, 25)), 0},
		{"three of two", join(hold("0", "a", 10, 20), hold("1", "b", 15, 25), hold("2", "c", 19, 30)), 1},
		{"four of two", join(hold("0", "a", 10, 20), hold("1", "b", 15, 25), hold("2", "c", 19, 30), hold("3", "d", 19, 21)), 2},
		{"one after another", join(hold("0", "a", 10, 20), hold("1", "b", 15, 25), hold("0", "c", 20, 30), hold("1", "d", 25, 40)), 0},
		{"the same slot", join(hold("0", "a", 10, 20), hold("0", "b", 15, 25), hold("0", "c", 16, 17)), 1},
	} {
		if got := CheckCrowd(c.events, 2); len(got) != c.want {
			t.Errorf("%s: %v, want %d", c.name, got, c.want)
		}
	}
}
