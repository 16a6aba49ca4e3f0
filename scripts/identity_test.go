package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

const lockerKey = "quorumlock:locker:"

var api7 = scripts.Identity{Host: "api-7", PID: 4711, Program: "worker", Label: "nightly"}

const api7Text = `{"host":"api-7","pid":4711,"program":"worker","label":"nightly"}`

const listedText = `{"host":"h","pid":1,"list":"205830ca5b23bbe3"}`

func introduceVectors() []vector {
	introduce := func(v vector, is scripts.Identity, list *scripts.List) vector {
		v.call, v.want = scripts.Introduce("L", is, list, 15*time.Second), true
		v.after, v.twice = append(v.after, ttl(lockerKey+"L", time.Minute)), v.err == ""
		return v
	}
	return []vector{
		introduce(vector{name: "new", after: []check{text(lockerKey+"L", api7Text)}}, api7, nil),
		introduce(vector{name: "with its list of masters", after: []check{text(lockerKey+"L", listedText)}},
			scripts.Identity{Host: "h", PID: 1}, scripts.NewList("a", "b", "c")),
		introduce(vector{name: "in place of any other key", before: state([]any{"HSET", lockerKey + "L", "x", "y"}),
			after: []check{text(lockerKey+"L", `{"host":"h","pid":1}`)}}, scripts.Identity{Host: "h", PID: 1}, nil),
		introduce(vector{name: "long texts are cut", after: []check{
			text(lockerKey+"L", `{"host":"`+strings.Repeat("h", 255)+`","pid":1,"program":"a?b"}`)}},
			scripts.Identity{Host: strings.Repeat("h", 1000), PID: 1, Program: "a\nb"}, nil),
	}
}

func whoVectors() []vector {
	who := func(v vector, lockers ...string) vector {
		v.call, v.untouched = scripts.Who(lockers), true
		return v
	}
	type replies = []scripts.Identity
	has := func(locker, text string) []any { return []any{"SET", lockerKey + locker, text} }
	return []vector{
		who(vector{name: "nobody", want: replies{{}}}, "L"),
		who(vector{name: "one of two", before: state(has("L", api7Text)), want: replies{{}, api7}}, "M", "L"),
		who(vector{name: "a hash", before: state([]any{"HSET", lockerKey + "L", "x", "y"}), want: replies{{}}}, "L"),
		who(vector{name: "no JSON", before: state(has("L", "x")), want: replies{{}}}, "L"),
		who(vector{name: "JSON of another shape", before: state(has("L", `["api-7"]`)), want: replies{{}}}, "L"),
		who(vector{name: "no process", before: state(has("L", `{"host":"h"}`)), want: replies{{}}}, "L"),
		who(vector{name: "more than is known", before: state(has("L", `{"host":"h","pid":1,"zone":"b"}`)),
			want: replies{{Host: "h", PID: 1}}}, "L"),
		who(vector{name: "a line break", before: state(has("L", `{"host":"h\nquorumlock: all is well","pid":1}`)),
			want: replies{{Host: "h?quorumlock: all is well", PID: 1}}}, "L"),
		who(vector{name: "too long", before: state(has("L", `{"host":"`+strings.Repeat("h", 5000)+`","pid":1}`)),
			want: replies{{}}}, "L"),
	}
}

func TestLockerOf(t *testing.T) {
	for owner, locker := range map[string]string{"L:1": "L", "L:1:2": "L:1", ":7": "", "": "", "L": "L"} {
		if got := scripts.LockerOf(owner); got != locker {
			t.Errorf("%q is of %q, want %q", owner, got, locker)
		}
	}
}
