package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// Clocks beyond the drift allowance let two clients hold at once: the checker must find that. The
// fencing tokens must be right all the same.
func TestOutsideDrift(t *testing.T) {
	for what, stray := range map[string]func(*plan){
		"a client's clock is slow": func(p *plan) { p.clientRate[0] = 0.7 },
		"masters' clocks are fast": func(p *plan) {
			for i := range p.masterRate {
				p.masterRate[i] = 1.3
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			found := countOverlaps(t, 30, func(p *plan) {
				stray(p)
				p.fixed, p.longest = 0.8, 2.5 // renewal hides a good deal of drift
			}, true)
			if found == 0 {
				t.Error("two holders were never found")
			}
		})
	}
}

// Masters that forget and are trusted at once grant a lock twice. Here the power of all masters
// fails now and then, and nothing had reached the disk. With the quarantine the same runs must show
// no two holders.
func TestWithoutQuarantineFindsTwo(t *testing.T) {
	if countOverlaps(t, 30, func(p *plan) { powerFails(p); p.noQuarantine = true }, false) == 0 {
		t.Error("two holders were never found")
	}
	if found := countOverlaps(t, 30, powerFails, true); found != 0 {
		t.Errorf("with quarantine two holders were found in %d seeds", found)
	}
}

// powerFails makes the power of all masters fail now and then. Nothing has reached the disk.
func powerFails(p *plan) {
	p.ahead = false
	for at := p.lease; at < p.healed; at += 2 * p.lease {
		for m := range p.masters {
			there := link{master: m}
			p.faults = append(p.faults, fault{at: at, kind: crash, link: there, keeps: fakeredis.Nothing},
				fault{at: at + p.lease/20, kind: start, link: there})
		}
	}
	p.sort()
}

// countOverlaps plays some seeds with a change that may let two clients hold at once. It returns
// the number of seeds in which the checker found two holders. With tokens set, a wrong token fails
// the test. Without, the first such seed is enough.
func countOverlaps(t *testing.T, seeds uint64, change func(*plan), tokens bool) (found int) {
	t.Helper()
	played := uint64(0)
	for played < seeds && (tokens || found == 0) {
		played++
		p := newPlan(played)
		change(p)
		w := play(t, p)
		if all := w.violations(true); slices.ContainsFunc(all, overlaps) {
			if found++; found == 1 {
				t.Logf("for example: %v\n%v", p, all[slices.IndexFunc(all, overlaps)])
			}
		}
		if tokens {
			for _, v := range w.violations(false) {
				w.failures = append(w.failures, v.String())
			}
		} else {
			w.failures = slices.DeleteFunc(w.failures, func(f string) bool { return !strings.Contains(f, "stranded") })
		}
		w.report(t)
	}
	t.Logf("two holders in %d of %d seeds", found, played)
	return found
}
