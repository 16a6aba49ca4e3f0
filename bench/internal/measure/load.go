// Package measure runs peers in turns and computes figures from their samples.
package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// Load is callers that each do one pair after the other.
type Load struct {
	Callers   int
	For       time.Duration
	Names     string              // the set of names: loads with the same value use the same names
	NameCount int                 // how many names the set has; 0 stands for defaultNames
	Masters   []*redistest.Master // the masters whose usage counts, unless a peer has a method Usage, for other servers
}

// defaultNames is how many names the callers share out. Each caller goes through its part of them
// in turn: a name that is locked again at once would meet its last owner's stragglers on the slowest
// master.
const defaultNames = 4096

// namesFor makes names for one peer alone: keys that it leaves behind, in its own format, must not
// block another peer.
func (l Load) namesFor(p peers.Peer) []string {
	count := l.NameCount
	if count == 0 {
		count = defaultNames
	}
	names := make([]string, count)
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
	Usage   Usage
	Took    []time.Duration // of each pair, also of those that failed: a caller waited for them
}

// Run puts the load on a peer, for at most as many callers as there are names. It first collects
// earlier garbage.
func (l Load) Run(ctx context.Context, p peers.Peer) (Sample, error) {
	names, parts := l.namesFor(p), make([]Sample, l.Callers)
	for i := range parts {
		parts[i].Took = make([]time.Duration, 0, 1<<14/l.Callers)
	}
	runtime.GC()
	var before, after runtime.MemStats
	used, err := l.look(p)
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
	now, err := l.look(p)
	if err != nil {
		return total, err
	}
	total.Usage = now.Since(used)
	total.Allocs = after.Mallocs - before.Mallocs
	for _, part := range parts {
		total.add(part)
	}
	if err := ctx.Err(); err != nil {
		return total, err
	}
	if total.Pairs == 0 {
		return total, fmt.Errorf("bench: %s did not lock once in %v: %w", p.Name(), l.For, total.Failure)
	}
	return total, nil
}

// look reads the usage of this process and of the servers that the peer uses.
func (l Load) look(p peers.Peer) (Usage, error) {
	if other, ok := p.(interface{ Usage() (Usage, error) }); ok {
		return other.Usage()
	}
	return Look(l.Masters)
}

// Visit locks and unlocks every name of the load once.
func (l Load) Visit(ctx context.Context, p peers.Peer) error {
	names, errs := l.namesFor(p), make([]error, visitors)
	var all sync.WaitGroup
	for v := range visitors {
		all.Go(func() {
			for i := v; i < len(names) && errs[v] == nil; i += visitors {
				errs[v] = p.Pair(ctx, names[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

const visitors = 256

func (l Load) call(ctx context.Context, p peers.Peer, names []string, caller int, began time.Time, into *Sample) {
	last := began
	for i := caller; last.Sub(began) < l.For; i += l.Callers {
		err := p.Pair(ctx, names[i%len(names)])
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
