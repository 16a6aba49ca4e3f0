//go:build unix

package chaos

import (
	"fmt"
	"slices"
	"testing"
)

// control is a schedule that is played with a protection switched off, to show that it does harm
// then, and with redsync.
type control struct {
	scenario string
	without  string // the kind of contender; see open in ../contender/own
	means    string
	harm     func(*result) bool
	always   bool // redsync must do harm, too
}

// controlTries is how often a schedule may do no harm: on a busy machine the next renewal can come
// before the other contender.
const controlTries = 3

func doubleHold(r *result) bool { return r.DoubleHolds > 0 }
func twoHolders(r *result) bool { return r.DoubleHolds > 0 && slices.Contains(r.Notes, twoLists) }
func orphan(r *result) bool     { return r.Orphans > 0 }

func controls() []control {
	const trusting = "masters that forgot are trusted at once (node.WithoutQuarantine)"
	const twoLists = "the complete library, on masters that accept two lists: the harness overwrites their markers, in place of `quorumlock members`, so that the first list is accepted beside the newest one. Clients with wrong lists are refused: a marker has room for two lists"
	return []control{
		{pairScenario, "no-quarantine", trusting, doubleHold, true},
		{"thin quorum after a flush", "no-quarantine", trusting, doubleHold, false},
		{"failover to a replica that lacks the lock", "no-quarantine", trusting, doubleHold, false},
		{"frozen master", "no-deadline", "the holder checks neither the lock's context nor Valid", doubleHold, false},
		{"callers that give up while their requests are on the way", "no-rollback",
			"a failed attempt is undone on its caller's context, so not after the end of that context", orphan, false},
		{"semaphore of two slots", "counting", "each master counts holders, up to the number of slots, and who is counted by a majority of the masters holds", doubleHold, false},
		{"a live master is replaced", noRefusal, twoLists, twoHolders, true},
		{"two masters are added", noRefusal, twoLists, twoHolders, true},
		{"two operators against each other", noRefusal, "here the two lists are those without one of the operators' masters", doubleHold, true},
	}
}

// TestControls plays schedules without the library's protection against them: then they must do
// harm. With -chaos.full redsync plays the same schedules. It must do harm if its clients have
// different lists of masters; elsewhere nothing is expected.
func TestControls(t *testing.T) {
	for _, c := range controls() {
		s := scenarioNamed(t, c.scenario)
		if !*full && c.scenario == "failover to a replica that lacks the lock" {
			continue // the same protection as the two before
		}
		t.Run(s.name, func(t *testing.T) {
			for _, n := range controlSizes() {
				t.Run(fmt.Sprintf("%s/%d", c.without, n), func(t *testing.T) {
					c.mustHarm(t, s, c.without, n)
				})
				if !*full {
					continue
				}
				t.Run(fmt.Sprintf("redsync/%d", n), func(t *testing.T) {
					if _, err := program("redsync"); err != nil {
						lab.report.note("redsync was not run: its program could not be built")
						t.Skipf("SKIPPED: %v", err)
					}
					if c.always {
						c.mustHarm(t, s, "redsync", n)
					} else {
						perform(t, s, "redsync", n)
					}
				})
			}
		})
	}
}

func (c control) mustHarm(t *testing.T, s scenario, kind string, n int) {
	t.Helper()
	for range controlTries {
		if c.harm(perform(t, s, kind, n)) {
			return
		}
	}
	t.Errorf("the schedule did no harm %d times", controlTries)
}

func scenarioNamed(t *testing.T, name string) scenario {
	t.Helper()
	for _, s := range scenarios() {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return scenario{}
}

func controlSizes() []int {
	if *full || *nodes != 0 {
		return sizes(0)
	}
	return []int{3}
}
