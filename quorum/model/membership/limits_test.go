package membership

import "testing"

// TestFirstProtocol searches the rules by which clients first were to mark blank nodes.
func TestFirstProtocol(t *testing.T) {
	wiped := after().with(func(m *setup) { m.start[2] = blank })
	mustFind(t, map[string]setup{
		"a client that was once let in marks later ones": wiped.with(func(m *setup) {
			m.off, m.once, m.forgets = evidenceAge, c123, 1
		}),
		"enough answer, and one carries the list": after().with(func(m *setup) { m.off, m.forgets = evidence, 1 }),
		"a new deployment marks in one phase":     deployed(c123, c345).with(func(m *setup) { m.off = claimFirst }),
	})
}

// TestNotCovered searches what the protocol does not prevent.
func TestNotCovered(t *testing.T) {
	c145 := of(1, 4, 5)
	moved := carried(c145, 5) // by way of 12, 124 and 14; 3 was dead, and 2 is wiped
	moved[2] = carry(c123, 1, 0)
	spare := carried(c123, 1)
	spare[4] = carry(c123, 1, 0) // 5 was a member before
	mustFind(t, map[string]setup{
		"new deployments share one node, which forgets": deployed(c123, c345).with(func(m *setup) { m.forgets = 1 }),
		"old and new list share one node, which forgets": {
			start: moved, lists: []list{c123}, clients: two(c123, c145), maxLease: 2, forgets: 1},
		"the address of 2 moves to a spare that was a member": {
			start: spare, clients: [maxClients]member{{c123, c123}, {c123, of(1, 3, 5)}}, maxLease: 2},
	})
}

func mustFind(t *testing.T, searches map[string]setup) {
	for name, m := range searches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := m.explore(limit)
			report(t, &m, found)
			if found.trace == nil {
				t.Error("no two hold")
			}
		})
	}
}
