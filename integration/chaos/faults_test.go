//go:build unix

package chaos

import (
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
)

// The faults are quorumchaos's. Here are those that are one command to a server.

func (r *run) do(i int, args ...any) error {
	_, err := r.Servers[i].Do(args...)
	return err
}

func (r *run) command(i int, kind string, args ...any) {
	r.t.Helper()
	r.happened(kind, "%s", r.Names[i])
	r.must(r.do(i, args...))
}

func (r *run) crash(i ...int) {
	r.Kill(i...)
	r.Restart(i...)
}

// steppedClocks: the clocks of a minority jump an hour ahead, which ends every lease there, then
// two hours back, which prolongs the keys that are set meanwhile, under a lock that all masters had
// granted. The other masters keep the lock.
func steppedClocks(r *run) {
	holder := r.holds(contender.Plan{})
	r.crowd(2, contender.Plan{Patience: 200 * time.Millisecond})
	r.let(r.lease / 2)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		r.Step(ahead, placesTo(r.n/2)...)
		r.let(r.lease + r.lease/2)
	}
	r.heldThroughout(holder)
}
