package inside

import (
	"math/rand/v2"

	"github.com/quorumlock/quorumlock/clock"
)

// Settings are those that only tests and this module's command change. The settings of a Locker and of a node embed them.
type Settings struct {
	Clock      clock.Clock // of a Locker
	Random     rand.Source
	OneProcess bool // of a node: no balancer is at its address, which is not dialed again to find out
	Alone      bool // of a node: no other process reaches its master
	Unsealed   bool // of a node: what its calls read counts before replicas acknowledge it
	Given      bool // by an option

	// Nests, of a Locker, is told what a flow holds and wants when a call waits without a bound.
	Nests func(holds, wants []string)
}

func (s *Settings) inside() *Settings { return s }

// Option returns an option of package quorum or node that changes the settings.
func Option[O ~func(*S), S any, P interface {
	*S
	inside() *Settings
}](change func(*Settings)) O {
	return func(of *S) {
		s := P(of).inside()
		s.Given = true
		change(s)
	}
}
