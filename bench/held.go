package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/bench/internal/profile"
	"github.com/quorumlock/quorumlock/quorum"
)

// measureHeld measures the cost of a lock that is held for long.
func measureHeld(b *bench, ctx context.Context, n int) (o *outcome, err error) {
	// A service passes one context of its own to all locks, and can end it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	library, held, err := b.openHeld(ctx, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	held.locks = make([]*quorum.Lock, 0, b.locks)
	names := make([]string, b.locks) // the caller's
	for i := range names {
		names[i] = held.name(i)
	}
	held.names = names

	heapBefore, goroutinesBefore := heapInUse(), runtime.NumGoroutine()
	empty, err := measure.Look(b.some(n))
	if err != nil {
		return nil, err
	}
	if err := held.grow(ctx, b.locks); err != nil {
		return nil, err
	}
	r, err := held.watch(ctx, b, n)
	if err != nil {
		return nil, err
	}
	used := float64(heapInUse() - heapBefore)
	each := func(total float64) float64 { return total / float64(b.locks) }
	lost := held.lost()
	f := figures{
		goroutines: float64(r.goroutines - goroutinesBefore),
		memory:     each(float64(r.end.Memory-empty.Memory)) / float64(n),
	}
	// A heap without the locks that were lost is no figure, nor are renewals that did not take place
	// about three times.
	if lost == 0 {
		f[heap] = each(used)
	}
	if r.renewals >= 2*b.locks && r.renewals <= 5*b.locks {
		onMasters := float64(n * r.renewals)
		done := r.end.Since(r.begin)
		f[commands] = float64(done.Commands.Calls(measure.ScriptCalls...)) / onMasters
		f[callersCPU] = float64(done.Callers) / float64(r.renewals)
		f[mastersCPU] = float64(done.Masters) / float64(r.renewals)
	}
	o = &outcome{rounds: map[string][]figures{ours: {f}}}
	o.tell("%d locks, %d of them lost; %d renewals of a lock on all masters, %.1f of each; "+
		"on each master %.0f B for each lock; processor time is for each renewal",
		b.locks, lost, r.renewals, each(float64(r.renewals)), f[memory])
	return o, nil
}

func (b *bench) openHeld(ctx context.Context, n int) (*peers.Library, *crew, error) {
	library, err := peers.OpenLibrary(b.urls(n), quorum.WithLease(b.lease))
	if err != nil {
		return nil, nil, err
	}
	if err := library.Pair(ctx, "bench:held:warm-up"); err != nil {
		return nil, nil, errors.Join(err, library.Close())
	}
	return library, &crew{locker: library.Locker()}, nil
}

// watched is what was seen of held locks for longer than a lease.
type watched struct {
	renewals   int // each time that a lock's deadline moved
	goroutines int // the most
	begin, end measure.Usage
}

// watch looks at the deadlines more often than renewals move them, by about a third of the lease.
// The same deadline is never quite the same time of day.
func (c *crew) watch(ctx context.Context, b *bench, n int) (w watched, err error) {
	deadlines := make([]time.Time, len(c.locks))
	moved := func() (n int) {
		for i, lock := range c.locks {
			if at := lock.Deadline(); at.Sub(deadlines[i]) > b.lease/6 {
				deadlines[i] = at
				n++
			}
		}
		return n
	}
	moved()
	if w.begin, err = measure.Look(b.some(n)); err != nil {
		return w, err
	}
	over := time.NewTimer(b.lease + b.lease/10)
	defer over.Stop()
	often, seldom := time.NewTicker(5*time.Millisecond), time.NewTicker(b.lease/12)
	defer often.Stop()
	defer seldom.Stop()
	for {
		select {
		case <-often.C:
			w.goroutines = max(w.goroutines, runtime.NumGoroutine())
		case <-seldom.C:
			w.renewals += moved()
		case <-over.C:
			w.renewals += moved()
			w.end, err = measure.Look(b.some(n))
			return w, err
		case <-ctx.Done():
			return w, ctx.Err()
		}
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

func profileHeld(b *bench, ctx context.Context, n int) (text string, err error) {
	library, held, err := b.openHeld(ctx, n)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	if err := held.grow(ctx, b.locks); err != nil {
		return "", err
	}
	text, err = profile.OfHeap(b.locks)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The heap, with %d locks held:\n\n%s", b.locks, text), nil
}
