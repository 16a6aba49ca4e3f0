package waiting

import "time"

// Approach is which nodes an attempt asks first.
type Approach int

const (
	// AskAll asks all nodes at once, in one round trip. When several processes do so at the same
	// time, each may get some of the votes and none a quorum: a split vote.
	AskAll Approach = iota
	// ProbeFirst asks one node, the same for all processes, and the others once that node has
	// granted. A refusal there costs one command, and leaves nothing to release: the vote is not
	// split.
	ProbeFirst
	// Alone also asks all nodes at once. It is for attempts that probably meet no rival; an attempt at slots then
	// needs no hint.
	Alone
)

// reserving is added to the approach of a writer that has met readers. Nodes with readers then keep new
// ones back for ReservationLife.
const reserving Approach = 1 << 4

// ReservationLife is how long a writer that waits keeps new readers back. Each of its attempts restarts it.
const ReservationLife = 2 * time.Second

// Probes reports whether the attempt asks one node first.
func (a Approach) Probes() bool { return a&^reserving == ProbeFirst }

// Reserves reports whether nodes with readers should keep new ones back.
func (a Approach) Reserves() bool { return a&reserving != 0 }
