package sim

import "testing"

// What simulations found, each with the least that shows it.
func TestRegressions(t *testing.T) {
	for name, change := range map[string]func(*plan){
		// A release that got NOSCRIPT was not sent again with the script's source: from the first SCRIPT FLUSH on, until the
		// connection died, no Unlock succeeded and every lock stayed for its lease. Found by seed 19.
		"scripts are forgotten while a lock is held": func(p *plan) {
			for m := range p.masters {
				p.faults = append(p.faults, fault{at: p.lease + p.unit, kind: unload, link: link{master: m}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(5) {
				p := newPlan(seed + 1)
				p.faults, p.windows, p.slow, p.loss = nil, nil, 0, 0
				change(p)
				p.sort()
				judge(t, p)
			}
		})
	}
}
