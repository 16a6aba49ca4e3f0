package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/quorum"
)

const (
	heapBudget    = 1536 // bytes for each lock
	batchesBudget = 0.1  // batched commands for each lock that a master renews
	fewGoroutines = 16   // shared by all locks, however many
	fillers       = 256  // goroutines that acquire the locks
)

// heldLocks measures the cost of a lock that is held for long.
func (b *bench) heldLocks(ctx context.Context) (err error) {
	const n = 3
	if err := b.use(n); err != nil {
		return err
	}
	ours, err := peers.OpenLibrary(b.urls(n), quorum.WithLease(b.lease))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	if err := ours.Pair(ctx, "bench:held:warm-up"); err != nil {
		return err
	}
	names := make([]string, b.locks)
	for i := range names {
		names[i] = fmt.Sprintf("bench:held:%d", i)
	}
	locks := make([]*quorum.Lock, b.locks)
	// A service passes one context of its own to all locks, and can end it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	heap, goroutines := heapInUse(), runtime.NumGoroutine()
	if err := fill(ctx, ours.Locker(), names, locks); err != nil {
		return err
	}
	renewals, peak, err := b.renew(ctx)
	if err != nil {
		return err
	}
	heap = heapInUse() - heap
	lost := 0
	for _, lock := range locks {
		if !lock.Valid() {
			lost++
		}
	}
	b.report.add(heldRows(b.locks, lost, heap, peak-goroutines, renewals)...)
	return nil
}

func fill(ctx context.Context, locker *quorum.Locker, names []string, locks []*quorum.Lock) error {
	var next atomic.Int64
	errs := make([]error, fillers)
	var all sync.WaitGroup
	for f := range fillers {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(names) && errs[f] == nil; i = next.Add(1) - 1 {
				locks[i], errs[f] = locker.Lock(ctx, names[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// renew waits for longer than a lease. It returns the masters' commands in that time and the most
// goroutines seen.
func (b *bench) renew(ctx context.Context) (done measure.Commands, peak int, err error) {
	before, err := measure.CountCommands(b.some(3))
	if err != nil {
		return nil, 0, err
	}
	over := time.NewTimer(b.lease + b.lease/10)
	defer over.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			peak = max(peak, runtime.NumGoroutine())
		case <-over.C:
			after, err := measure.CountCommands(b.some(3))
			return after.Since(before), peak, err
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

func heldRows(held, lost, heap, goroutines int, done measure.Commands) []row {
	what := fmt.Sprintf("%d locks held and renewed, N=3, ", held)
	perLock := float64(heap) / float64(held)
	// The renewal script looks for the owner once for each lock, and without acquires nothing else
	// does.
	renewed, sent := done["hexists"], done["evalsha"]+done["eval"]
	perRenewal := float64(sent) / float64(max(renewed, 1))
	return []row{
		{what: what + "heap each", ours: fmt.Sprintf("%.0f B", perLock), budget: "≤ 1.5 KB",
			met:     perLock <= heapBudget && lost == 0,
			details: fmt.Sprintf("%d of the locks were lost while they were held", lost)},
		{what: what + "goroutines each", ours: fmt.Sprintf("%.5f", float64(goroutines)/float64(held)), budget: "0",
			met:     goroutines <= fewGoroutines,
			details: fmt.Sprintf("at most %d goroutines more than with no locks, in all", goroutines)},
		{what: what + "commands per renewal", ours: fmt.Sprintf("%.4f", perRenewal), budget: "batched: ≤ 0.1",
			met: renewed >= 6*held && perRenewal <= batchesBudget,
			details: fmt.Sprintf("%d renewals on 3 masters by %d commands, %.1f renewals of each lock on each master",
				renewed, sent, float64(renewed)/float64(3*held))},
	}
}

// heapInUse is the reachable heap, after a garbage collection.
func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
