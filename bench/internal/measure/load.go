// Package measure runs peers in turns and computes figures from their samples.
package measure

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// Load is callers that each do one pair after the other.
type Load struct {
	Callers int
	For     time.Duration
	Names   string              // the set of names: loads with the same value use the same names
	Masters []*redistest.Master // the masters whose processor time counts
}

// nameCount is how many names the callers share out. Each caller goes through its part of them in
// turn: a name that is locked again at once would meet its last owner's stragglers on the slowest
// master.
const nameCount = 4096

// namesFor makes names for one peer alone: keys that it leaves behind, in its own format, must not
// block another peer.
func (l Load) namesFor(p peers.Peer) []string {
	names := make([]string, nameCount)
	for i := range names {
		names[i] = fmt.Sprintf("bench:%s:%s:%d", p.Name(), l.Names, i)
	}
	return names
}

// Sample is the result of one run of a load.
type Sample struct {
	Pairs   int
	Failed  int
	Failure error // the first one
	Elapsed time.Duration
	Allocs  uint64 // of the whole process
	CPU     CPU
	Took    []time.Duration // of each pair, also of those that failed: a caller waited for them
}

// PerPair is the time of the run divided by its pairs.
func (s Sample) PerPair() time.Duration { return s.Elapsed / time.Duration(max(s.Pairs, 1)) }

// Run puts the load on a peer, for at most as many callers as there are names. It first collects
// earlier garbage.
func (l Load) Run(ctx context.Context, p peers.Peer) (Sample, error) {
	names, parts := l.namesFor(p), make([]Sample, l.Callers)
	for i := range parts {
		parts[i].Took = make([]time.Duration, 0, 1<<14/l.Callers)
	}
	runtime.GC()
	var before, after runtime.MemStats
	used, err := readCPU(l.Masters)
	if err != nil {
		return Sample{}, err
	}
	runtime.ReadMemStats(&before)
	began := time.Now()
	var callers sync.WaitGroup
	for i := range parts {
		callers.Go(func() { l.call(ctx, p, names, i, began, &parts[i]) })
	}
	callers.Wait()
	total := Sample{Elapsed: time.Since(began)}
	runtime.ReadMemStats(&after)
	now, err := readCPU(l.Masters)
	if err != nil {
		return total, err
	}
	total.CPU = now.since(used)
	total.Allocs = after.Mallocs - before.Mallocs
	for _, part := range parts {
		total.add(part)
	}
	if total.Pairs+total.Failed == 0 {
		return total, fmt.Errorf("bench: %s: no pair in %v: %w", p.Name(), l.For, context.Cause(ctx))
	}
	return total, ctx.Err()
}

func (l Load) call(ctx context.Context, p peers.Peer, names []string, caller int, began time.Time, into *Sample) {
	last := began
	for i := caller; last.Sub(began) < l.For; i += l.Callers {
		err := p.Pair(ctx, names[i%nameCount])
		now := time.Now()
		if err == nil {
			into.Pairs++
		} else {
			into.fail(err)
		}
		into.Took = append(into.Took, now.Sub(last))
		last = now
	}
}

func (s *Sample) fail(err error) {
	s.Failed++
	if s.Failure == nil {
		s.Failure = err
	}
}

func (s *Sample) add(part Sample) {
	s.Pairs += part.Pairs
	s.Failed += part.Failed
	if s.Failure == nil {
		s.Failure = part.Failure
	}
	s.Took = append(s.Took, part.Took...)
}
