package handoff

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

func TestJudgeCountsLocksContendedByAnotherProcess(t *testing.T) {
	plan := Plan{Contenders: 4, Processes: 2, Locks: 1}
	accounts := []account{
		{Process: 0, Attempts: 5, Holds: []hold{
			{Contender: 0, Asked: 1, Acquired: 10, Released: 20},
			{Contender: 1, Asked: 2, Acquired: 25, Released: 30},  // regained: contender 2 waits
			{Contender: 0, Asked: 60, Acquired: 70, Released: 80}, // no contender waited at the release
			{Contender: 1, Asked: 90, Acquired: 95, Released: 99}, // only a contender of the same process waited
		}},
		{Process: 1, Attempts: 2, Holds: []hold{
			{Contender: 2, Asked: 3, Acquired: 37, Released: 50},
			{Contender: 2, Asked: 75, Acquired: 79, Released: 89}, // overlaps
			{Contender: 3, Asked: 85},
		}},
	}
	r := judge(plan, "redsync", accounts, measure.Usage{Commands: measure.Commands{
		"set": {Calls: 6}, "evalsha": {Calls: 4}, "get": {Calls: 4}, "info": {Calls: 3}}})
	if want := []time.Duration{7}; !slices.Equal(r.Handoffs, want) {
		t.Errorf("handoffs %v, want %v", r.Handoffs, want)
	}
	if r.Regained != 1 || r.Newcomers != 0 || len(r.Waits) != 6 || r.Attempts != 7 || r.Sent != 10 ||
		r.Overlaps != 1 || !slices.Equal(r.Shares, []int{2, 2, 2, 0}) {
		t.Errorf("%+v", r)
	}
	if sum := Sum([]Round{r, r}); len(sum.Waits) != 12 || !slices.Equal(sum.Shares, []int{4, 4, 4, 0}) ||
		len(sum.Handoffs) != 2 {
		t.Errorf("twice: %+v", sum)
	}
	if most, least := r.Spread(); most != 2/1.5 || least != 0 {
		t.Errorf("spread %v and %v", most, least)
	}
}

func TestJudgeFindsTheLongestStreak(t *testing.T) {
	waits := hold{Contender: 1, Asked: 2, Acquired: 40, Released: 50}
	r := judge(Plan{Contenders: 2, Processes: 2, Locks: 1}, "redsync", []account{
		{Process: 0, Holds: []hold{
			{Contender: 0, Asked: 1, Acquired: 10, Released: 15},
			{Contender: 0, Asked: 16, Acquired: 20, Released: 25},
			{Contender: 0, Asked: 26, Acquired: 30, Released: 35},
			{Contender: 0, Asked: 51, Acquired: 60, Released: 65}, // a handoff came between
			{Contender: 0, Asked: 66, Acquired: 70, Released: 75}, // nobody else waited
		}},
		{Process: 1, Holds: []hold{waits}},
	}, measure.Usage{})
	if r.Streak != 3 || r.Regained != 2 {
		t.Errorf("%d in a row, %d regained, want 3 and 2", r.Streak, r.Regained)
	}
	if sum := Sum([]Round{r, {Streak: 2, Shares: []int{1, 1}}}); sum.Streak != 3 {
		t.Errorf("%d in a row in both, want 3", sum.Streak)
	}
}

func TestJudgeCountsNewcomers(t *testing.T) {
	plan := Plan{Contenders: 3, Processes: 3, Locks: 1}
	r := judge(plan, "redsync", []account{
		{Process: 0, Holds: []hold{{Contender: 0, Asked: 1, Acquired: 2, Released: 10}}},
		{Process: 1, Holds: []hold{{Contender: 1, Asked: 3}}},
		{Process: 2, Holds: []hold{{Contender: 2, Asked: 12, Acquired: 15, Released: 20}}},
	}, measure.Usage{})
	if len(r.Handoffs) != 1 || r.Handoffs[0] != 5 || r.Newcomers != 1 {
		t.Errorf("%+v", r)
	}
}

// Two contenders of one session would both hold.
func TestEtcdsContendersOfAProcessHaveDifferentLocks(t *testing.T) {
	never := func() (measure.Usage, error) { return measure.Usage{}, errors.New("it ran") }
	for _, plan := range []Plan{{Contenders: 3, Processes: 2, Locks: 1}, {Contenders: 128, Processes: 1, Locks: 64}} {
		_, err := plan.RunOn(t.Context(), Etcd, nil, never)
		if err == nil || !strings.Contains(err.Error(), "both hold") {
			t.Errorf("%+v: %v", plan, err)
		}
	}
}

func TestJudgeKeepsLocksApart(t *testing.T) {
	plan := Plan{Contenders: 4, Processes: 2, Locks: 2}
	r := judge(plan, "redsync", []account{
		{Process: 0, Holds: []hold{{Contender: 0, Asked: 1, Acquired: 2, Released: 10},
			{Contender: 1, Asked: 1, Acquired: 2, Released: 12}}},
		{Process: 1, Holds: []hold{{Contender: 2, Asked: 3, Acquired: 11, Released: 20},
			{Contender: 3, Asked: 3, Acquired: 15, Released: 20}}},
	}, measure.Usage{})
	if want := []time.Duration{1, 3}; !slices.Equal(r.Handoffs, want) || r.Overlaps != 0 {
		t.Errorf("%+v", r)
	}
}
