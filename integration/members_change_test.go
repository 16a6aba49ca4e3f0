package integration_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// rolloutLease is the max lease of the deployments whose masters accept two lists.
const rolloutLease = 3 * time.Second

// Without the check of lists two hold: where masters accept two lists whose majorities do not meet, and where a
// master is given another list without quarantine. It is the control of what chaos and the simulation show of lists that change.
func TestMembersUncheckedFindsTwo(t *testing.T) {
	t.Parallel()
	cde := []string{"c", "d", "e"}
	all := []string{"a", "b", "c", "d", "e"}
	for how, c := range map[string]struct {
		second    []string
		uncheck   func(*testing.T, *roster, time.Duration)
		takeovers []string // masters that are given the second list while the first lock is held
	}{
		"every master accepts both": {second: cde, uncheck: func(t *testing.T, r *roster, lease time.Duration) {
			for _, name := range all {
				r.give(t, name, lease, abc, cde)
			}
		}},
		"masters forget, and are given the other list at once": {
			second: []string{"b", "c", "d"}, takeovers: []string{"b", "c", "d"},
			uncheck: func(t *testing.T, r *roster, lease time.Duration) { r.giveAll(t, lease, abc...) },
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			inTime(t, rolloutLease, func(lease time.Duration) bool {
				r := rosterOf(t, all...)
				c.uncheck(t, r, lease)
				one, err := listOpen(t, redlock.Open, lease, r.of(abc...))
				must(t, err)
				first := lock(t, one, "job")
				for _, name := range c.takeovers {
					do(t, r.masters[name], "FLUSHALL")
					r.give(t, name, lease, c.second, nil)
				}
				other, err := listOpen(t, redlock.Open, lease, r.of(c.second...))
				must(t, err)
				second := lock(t, other, "job")
				return first.Valid() && second.Valid()
			})
		})
	}
}
