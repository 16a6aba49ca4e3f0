// Package backstage lets integration/chaos and integration/deploy reach what contrib/quorumchaos does not export: the
// types of that package embed those of this one, whose methods no program outside can name. What users could want does
// not come here, but becomes a method there.
package backstage

import (
	"errors"

	"github.com/quorumlock/quorumlock/internal/failover"
	"github.com/quorumlock/quorumlock/internal/forward"
)

// ErrNone is wrapped by the error of quorumchaos.Open when this machine has no masters of the kind.
var ErrNone = errors.New("needs a container engine or redis-server")

// Label is the label of all that is made at a container engine. Its value is the id of the run.
const Label = "quorumlock.run"

// Backend is the inside of a *quorumchaos.Backend.
type Backend struct {
	Kind       string                             // of its masters, for people
	Run, Image string                             // "" without an engine
	Left       func() ([]string, error)           // what must be gone when no master runs
	LeftOf     func(run string) ([]string, error) // what there is of another process's run
}

// Server is one process that serves as a master.
type Server interface {
	Addr() string // the same over the master's whole life, but for one with replicas
	Do(args ...any) (any, error)
}

// Cluster is the inside of a *quorumchaos.Cluster.
type Cluster struct {
	Names   []string
	Servers []Server
	Groups  []*failover.Master // of masters with replicas
	Relays  []*forward.Forward // of a group of clients
	Notes   *Notes
	Faults  []Fault // of masters, or of the paths of a group, which random walks draw from

	// Replica starts a replica of a master, and returns when it has the data.
	Replica func(of int) Server
	// Promote puts a replica in the place of a master, at its address.
	Promote func(replica Server, i int)
}

// Fault is something that a walk may do to masters.
type Fault struct {
	Begin, End func(i ...int) // End is nil for one that has no end
	Quarantine float64        // at least so many max leases follow, if masters forget
}
