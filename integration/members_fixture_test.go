package integration_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

var abc = []string{"a", "b", "c"}

// roster has masters under the names that clients give them.
type roster struct {
	masters map[string]*redistest.Master
	gates   map[string]*forward.Forward // in front of the masters, if the test wants them
}

// rosterOf starts a master for each name.
func rosterOf(t *testing.T, names ...string) *roster {
	t.Helper()
	r := &roster{masters: map[string]*redistest.Master{}}
	for i, m := range fleet(t, len(names)).Masters {
		r.masters[names[i]] = m
	}
	return r
}

// withGates puts a gate in front of every master of a roster.
func (r *roster) withGates(t *testing.T) *roster {
	t.Helper()
	r.gates = map[string]*forward.Forward{}
	for name, m := range r.masters {
		r.gates[name] = gate(t, m)
	}
	return r
}

// url is where clients reach the master of that name.
func (r *roster) url(name string) string {
	address := r.masters[name].Addr()
	if g := r.gates[name]; g != nil {
		address = g.Addr()
	}
	return "redis://" + address + "?name=" + name
}

// of returns the URLs of the masters of these names.
func (r *roster) of(names ...string) addresses {
	var l addresses
	for _, name := range names {
		l = append(l, r.url(name))
	}
	return l
}

// give writes a master's marker, as if it had been admitted long ago. Clients knew it as the member.
func (r *roster) give(t *testing.T, name, member string, maxLease time.Duration, members []string, next ...string) {
	t.Helper()
	run := testkit.Info(t, r.masters[name], "server", "run_id")
	m := scripts.Marker{
		Process:    scripts.Process{Run: run, MaxLease: maxLease, Member: member},
		Generation: 1, Members: scripts.NewList(members...), Next: scripts.NewList(next...),
	}
	do(t, r.masters[name], "SET", scripts.MarkerKey, m.String())
}

// giveAll writes the markers of a deployment: its masters, and no change under way.
func (r *roster) giveAll(t *testing.T, maxLease time.Duration, members ...string) {
	t.Helper()
	for _, name := range members {
		r.give(t, name, name, maxLease, members)
	}
}
