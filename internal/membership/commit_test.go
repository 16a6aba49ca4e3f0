package membership_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/scripts"
)

// Masters restart with their data between announce and commit. Each command names a client with the
// list before, and once that has marked them the change goes on.
func TestMastersThatRestartInTheMidstOfAChange(t *testing.T) {
	restarted := func(next *scripts.List) setup {
		return func(m *scripts.Marker) { m.Run, m.Next = "old", next }
	}
	ab := scripts.NewList("a", "b")
	for what, c := range map[string]struct {
		masters []setup
		to      *scripts.List
		commit  string // what it says
		again   string // and the change, when it is repeated
	}{
		"all of a removal": {[]setup{restarted(ab), restarted(ab), restarted(none)}, ab,
			"a is blank: a client with {a, b, c} must mark it", "a is blank: a client with {a, b, c} must mark it"},
		"one of a removal": {[]setup{becoming(ab), restarted(ab), marked}, ab,
			"a client with {a, b, c} comes first (lock any name), which marks what is blank: b; then repeat members add or remove",
			"b is blank: a client with {a, b, c} must mark it"},
		"two of an addition": {[]setup{restarted(abcd), restarted(abcd), becoming(abcd), becoming(abcd)}, abcd,
			"which marks what is blank: a, b; then repeat", "a is blank: a client with {a, b, c} must mark it"},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, c.masters...)
			by := changeOf(t, abc, c.to)
			by.Waits = true
			for _, by := range []struct {
				p    *change.Procedure
				says string
			}{{change.Commit(c.to), c.commit}, {by.Announce(), c.again}} {
				if trail, last := world.carryOut(by.p, nil); len(trail) > 0 || !strings.Contains(fmt.Sprint(last.Err), by.says) {
					t.Errorf("it marks %q and says %v, want %q", trail, last.Err, by.says)
				}
			}
			world.found(clientOf(abc), world.views(abc))
			for _, p := range []*change.Procedure{by.Announce(), change.Commit(c.to)} {
				if _, last := world.carryOut(p, nil); last.Do != change.Done {
					t.Fatal(last.Err)
				}
			}
			for _, name := range c.to.Names() {
				world.has("committed", name, c.to, none, 8)
			}
		})
	}
}

// A commit goes on without members that do not answer or are blank, while a majority of the new list
// has the change.
func TestCommitWithoutSome(t *testing.T) {
	announced := becoming(abcd)
	committed := func(m *scripts.Marker) { m.Members, m.Generation = abcd, 8 }
	for what, c := range map[string]struct {
		masters []setup
		want    string // the marks; or what the error says
	}{
		"all have it":                   {[]setup{announced, announced, announced, announced}, "a b c d"},
		"one does not answer":           {[]setup{announced, absent, announced, announced}, "a c d"},
		"one is blank":                  {[]setup{announced, announced, announced, nil}, "a b c"},
		"one was marked since":          {[]setup{announced, marked, announced, announced}, "a b c d"},
		"the new one is claimed":        {[]setup{announced, announced, announced, claimed}, "a b c d"},
		"some have committed":           {[]setup{listing(abcd), listing(abcd), announced, absent}, "c"},
		"one is left over":              {[]setup{committed, committed, marked, committed}, "c"},
		"one was marked, one committed": {[]setup{listing(abcd), marked, announced, announced}, "b c d"},
		"all have committed":            {[]setup{listing(abcd), listing(abcd), listing(abcd), absent}, ""},
		"two do not answer":             {[]setup{announced, absent, absent, announced}, "the change to {a, b, c, d} is on 2 of its masters, and must be on 3: start b, c and repeat"},
		"all that answer committed":     {[]setup{listing(abcd), absent, absent, listing(abcd)}, "and must be on 3: start b, c and repeat this command. If none"},
		"or are blank":                  {[]setup{listing(abcd), nil, nil, listing(abcd)}, "and must be on 3: a client with {a, b, c, d} comes first (lock any name), which marks what is blank: b, c; then repeat this command. If none"},
		"none has it":                   {[]setup{marked, marked, marked, nil}, "no change to {a, b, c, d} is announced there"},
		"none answers":                  {[]setup{absent, absent, absent, absent}, "no master of {a, b, c, d} answers"},
		"another change is under way":   {[]setup{becoming(five), marked, marked, nil}, "on a a change to {a, b, c, d, e} is under way"},
		"it has moved on":               {[]setup{func(m *scripts.Marker) { m.Members, m.Next = abcd, five }, announced, announced, announced}, "on a a change to {a, b, c, d, e} is under way"},
		"announced from another list":   {[]setup{announced, func(m *scripts.Marker) { m.Members, m.Next = abd, abcd }, announced, announced}, "b changes from {a, b, d}, and others from {a, b, c}"},
		"a master of another max lease": {[]setup{announced, func(m *scripts.Marker) { m.MaxLease = time.Second }, announced, announced}, "b has the max lease 1s: use -max-lease 1s"},
	} {
		t.Run(what, func(t *testing.T) {
			world := newClusterOf(t, c.masters...)
			trail, last := world.carryOut(change.Commit(abcd), nil)
			if len(c.want) > len("a b c d") {
				if last.Err == nil || !strings.Contains(last.Err.Error(), c.want) || len(trail) > 0 {
					t.Errorf("it marks %q and says %v, want %q", trail, last.Err, c.want)
				}
				return
			}
			if got := strings.Join(trail, " "); got != c.want || last.Do != change.Done {
				t.Errorf("it marks %q and says %v, want %q", got, last.Err, c.want)
			}
			for _, name := range trail {
				world.has("committed", name, abcd, none, 8)
			}
		})
	}
}
