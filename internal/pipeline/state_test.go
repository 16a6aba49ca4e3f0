package pipeline

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The connect timer may fire just after the connection was made. A pipe that it took down then
// would stay down for ever: a live connection is not connected again.
func TestALateConnectTimerLeavesThePipeUp(t *testing.T) {
	p := unconnected()
	for before, after := range map[state]state{connecting: down, up: up} {
		p.mu.Lock()
		p.state = before
		p.mu.Unlock()
		p.goDownFrom(ErrTimeout, connecting)
		testkit.Equal(t, p.state, after, before)
	}
}
