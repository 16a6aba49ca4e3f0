package holders

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Introduction keeps a locker's identity on the nodes while the locker holds locks: a key on each
// node, however many locks it holds. The key outlives every lease, so that the lock of a process
// that is dead still shows which it was. With it is the list of masters, for quorumlock members.
type Introduction struct {
	nodes  []*node.Node
	locker string
	call   func() scripts.Call
	next   atomic.Int64 // the clock.Instant of the next writing
}

// NewIntroduction returns the introduction of the locker with that id. list returns its list of
// masters.
func NewIntroduction(nodes []*node.Node, locker string, is scripts.Identity, list func() *scripts.List,
	maxLease time.Duration) *Introduction {
	in := &Introduction{nodes: nodes, locker: locker, call: func() scripts.Call {
		return scripts.Introduce(locker, is, list(), maxLease)
	}}
	in.next.Store(int64(clock.Never))
	return in
}

// Keep writes the identity, if that is due. It waits for no node. A server that refuses the key is
// left alone: its locks have no identity.
func (in *Introduction) Keep(now clock.Instant) {
	next := in.next.Load()
	if int64(now) < next || !in.next.CompareAndSwap(next, int64(now.Add(scripts.IntroduceEvery))) {
		return
	}
	call := in.call()
	for _, n := range in.nodes {
		inside.Of(n).Pipe("").Start(call, nil, nil) // a node that is down gets it with a later one
	}
}

// Leave takes the identity back, if it was written. It waits for no node.
func (in *Introduction) Leave() {
	if in.next.Load() == int64(clock.Never) {
		return
	}
	for _, n := range in.nodes {
		inside.Of(n).Pipe("").Start(scripts.Leave(in.locker), nil, nil)
	}
}
