//go:build unix

package chaos

import (
	"net"
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
	r.happened(kind, "%s", memberName(i))
	r.must(r.do(i, args...))
}

// crash kills masters and starts them again.
func (r *run) crash(i ...int) {
	r.Kill(i...)
	r.Restart(i...)
}

// loseTail stops a master's writes to its append-only file: when it crashes, it loses everything
// since, as a machine's crash loses the last second of everysec. (A crash of the process alone
// loses nothing that the kernel has received.)
func (r *run) loseTail(i ...int) {
	r.command(i[0], "lose the tail of the append-only file", "CONFIG", "SET", "appendonly", "no")
}

func (r *run) clientPause(i int, d time.Duration) {
	r.command(i, "CLIENT PAUSE", "CLIENT", "PAUSE", d.Milliseconds(), "ALL")
}

func (r *run) clientKill(i int) {
	r.command(i, "CLIENT KILL", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

func (r *run) scriptFlush(i int) { r.command(i, "SCRIPT FLUSH", "SCRIPT", "FLUSH") }

// fill leaves a master no free memory, and it evicts nothing. drain ends that.
func (r *run) fill(i ...int)  { r.command(i[0], "maxmemory", "CONFIG", "SET", "maxmemory", "1") }
func (r *run) drain(i ...int) { r.must(r.do(i[0], "CONFIG", "SET", "maxmemory", "0")) }

// replicaOf makes a master the replica of another, which replaces its data; independent makes it a
// master again.
func (r *run) replicaOf(i, of int) {
	host, port, _ := net.SplitHostPort(r.Servers[of].Addr())
	r.command(i, "REPLICAOF", "REPLICAOF", host, port)
}

func (r *run) independent(i int) { r.must(r.do(i, "REPLICAOF", "NO", "ONE")) }

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
