package scripts_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

func lockersVectors() []vector {
	lockers := func(v vector) vector {
		v.call, v.untouched = operators.Lockers("0"), true
		v.parse = func(reply any) (any, error) {
			parsed, err := typed(v.call, reply)
			if err != nil {
				return nil, err
			}
			found := parsed.(*operators.LockersReply)
			if found.Cursor != "0" {
				err = fmt.Errorf("the cursor is %q after the last key", found.Cursor)
			}
			slices.SortFunc(found.Found, func(a, b operators.Introduced) int { return cmp.Compare(a.Locker, b.Locker) })
			all := []string{}
			for _, l := range found.Found {
				ofABC := l.HasList(scripts.NewList("c", "b", "a"))
				all = append(all, fmt.Sprint(l.Locker, " ", l.Identity, " ", ofABC, l.Left > 0))
			}
			return all, err
		}
		return v
	}
	has := func(key, text string) []any { return []any{"SET", key, text, "PX", 60000} }
	return []vector{
		lockers(vector{name: "nobody", before: state(ready, holds("k", me, "1")), want: []string{}}),
		lockers(vector{name: "with that list, without one, and with another",
			before: state(has(lockerKey+"K", listedText), has(lockerKey+"L", api7Text), has(lockerKey+"M", `{"host":"h","pid":2,"list":"x"}`)),
			want:   []string{"K {h 1  } true true", "L {api-7 4711 worker nightly} false true", "M {h 2  } false true"}}),
		lockers(vector{name: "other keys", before: state(has("quorumlock:lockers", listedText), has("quorumlock:loc", listedText)), want: []string{}}),
		lockers(vector{name: "no identities", before: state([]any{"HSET", lockerKey + "L", "x", "y"}, has(lockerKey+"M", "x"),
			has(lockerKey+"N", `{"host":"`+strings.Repeat("h", 5000)+`","pid":1}`), has(lockerKey+strings.Repeat("l", 600), listedText),
			[]any{"SET", lockerKey + "O", listedText}), // without an end: no locker wrote it
			want: []string{}}),
	}
}

// A locker that may hold has written its identity a max lease and 15 s ago at most.
func TestWhichLockersMayHold(t *testing.T) {
	const maxLease = 30 * time.Second
	for left, want := range map[time.Duration]bool{75 * time.Second: true, 30 * time.Second: true, 29 * time.Second: false} {
		testkit.Equal(t, operators.Introduced{Left: left}.MayHold(maxLease), want, left)
	}
	testkit.Equal(t, operators.Introduced{Left: 70 * time.Second}.Age(maxLease), 5*time.Second, "its age")
}

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
		testkit.Equal(t, scripts.LockerOf(owner), locker, owner)
	}
}
