package quorum

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/hashicorp/go-multierror"
)

// round gathers the answers of one fan-out to nodes that have a part in a hold already (release, extend, re-enter) until
// the outcome is certain, so that nobody waits for a slow node after that. A nil round ignores what it is told.
type round struct {
	need    int
	decided chan struct{} // closed when need answers count, or no longer can
	// believed, bit by node, is who is believed to have the owner. Where such a node has not, its answer decides nothing: too many
	// of them, and the lock had been lost.
	believed uint64

	mu     sync.Mutex
	left   int // answers still to come
	count  int
	denied uint64 // bit by node: it answered, and the owner was not there
	failed *multierror.Error
}

// reply is one node's part in a round.
type reply struct {
	counts bool // towards what the round needs
	found  bool
	err    error
}

func newRound(nodes, need int) *round {
	r := &round{need: need, left: nodes, decided: make(chan struct{})}
	if r.overLocked() {
		close(r.decided)
	}
	return r
}

// all takes the answers of all nodes.
func (r *round) all(*vote) *round { return r }

func (r *round) answer(node int, a reply) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.overLocked()
	r.left--
	if a.counts && !a.found {
		r.denied |= 1 << node
	}
	if a.counts {
		r.count++
	}
	if a.err != nil {
		r.failed = multierror.Append(r.failed, a.err)
	}
	if !before && r.overLocked() {
		close(r.decided)
	}
}

func (r *round) overLocked() bool {
	certain := r.count - bits.OnesCount64(r.denied&r.believed)
	return judge(certain+r.left, r.need, certain, 0) != pending
}

// outcome returns what is known by now.
func (r *round) outcome() (enough bool, denied uint64, failed *multierror.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		failed = &multierror.Error{Errors: slices.Clone(r.failed.Errors)}
	}
	return r.count >= r.need, r.denied, failed
}
