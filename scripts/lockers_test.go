package scripts_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
		if got := (operators.Introduced{Left: left}).MayHold(maxLease); got != want {
			t.Errorf("%v left: %v", left, got)
		}
	}
	if age := (operators.Introduced{Left: 70 * time.Second}).Age(maxLease); age != 5*time.Second {
		t.Errorf("it is %v old", age)
	}
}
