//go:build unix

package chaos

import (
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/backstage"
)

// The faults are quorumchaos's. Here are those that are one command to a server.

// do sends a command to a master.
func (r *run) do(i int, args ...any) error {
	_, err := r.Servers[i].Do(args...)
	return err
}

// command is a fault of a master.
func (r *run) command(i int, kind string, args ...any) {
	r.t.Helper()
	r.happened(kind, "%s", r.Names[i])
	r.must(r.do(i, args...))
}

// crash kills masters and starts them again.
func (r *run) crash(i ...int) {
	r.Kill(i...)
	r.Restart(i...)
}

// cutOff stops a replica's replication; it keeps its data. No server listens on port 1.
func (r *run) cutOff(replica backstage.Server) {
	r.happened("replica cut off", "%s", replica.Addr())
	_, err := replica.Do("REPLICAOF", "127.0.0.1", "1")
	r.must(err)
}

// steppedClocks: the clocks of a minority jump an hour ahead, which ends every lease there, then
// two hours back, which prolongs the keys that are set meanwhile, under a lock that all masters had
// granted. The other masters keep the lock.
func steppedClocks(r *run) {
	holder, _ := r.holds(contender.Plan{})
	r.crowd(2, contender.Plan{Patience: 200 * time.Millisecond})
	r.let(r.lease / 2)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		r.Step(ahead, placesTo(r.n/2)...)
		r.let(r.lease + r.lease/2)
	}
	r.heldThroughout(holder)
}
