package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
)

// flow is one sequence of a client's actions.
type flow struct {
	*machine
	id   int
	slot world.Slot
	rng  *rand.Rand
}

func (w *run) newFlow(m *machine, id int) *flow {
	return &flow{m, id, flowSlots + world.Slot(m.id*w.plan.flows+id), w.plan.rng("flow", m.id, id)}
}

// turn waits for the flow's next slot, whatever woke the flow.
func (f *flow) turn() {
	f.slot.Wait()
	f.first.PassAt(f.slot)
}

// enterProcess tells the library's timers and random numbers of this flow from others'.
func (f *flow) enterProcess() { f.first.Enter(f.id + 1) }

// within bounds a context.
func (f *flow) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, f.due(d))
}

// due is the end of a duration, in a slot that is not the flow's: the flow may be active in its own
// slot then.
func (f *flow) due(d time.Duration) time.Time { return f.first.TimerSlot().After(time.Now().Add(d)) }

func (f *flow) run() {
	f.enterProcess()
	f.turn()
	for time.Since(f.world.Start()) < f.world.plan.healed {
		f.rest(f.world.plan.rest)
		f.once()
	}
	// Wait for a restart that has begun.
	f.restarting <- struct{}{}
	<-f.restarting
	f.turn()
	f.world.healing.Do(func() { f.world.trace.add("ALL FAULTS HAVE ENDED") })
	f.awaitLists()
	for _, name := range f.world.plan.names {
		f.lockAfterFaults(name)
	}
}

// rest sleeps for part of a lease, on average.
func (f *flow) rest(share float64) {
	time.Sleep(time.Duration(f.rng.ExpFloat64() * share * float64(f.world.plan.unit)))
	f.turn()
}

// once locks some names, works, and unlocks.
func (f *flow) once() {
	p, w := f.world.plan, f.world
	names := []string{p.names[f.rng.IntN(len(p.names))]}
	if len(p.names) > 1 && f.rng.IntN(4) == 0 {
		names = p.names[:2]
		if f.rng.IntN(2) == 0 {
			names = []string{names[1], names[0]}
		}
	}
	c := f.current()
	locker := c.locker
	switch kind := f.rng.Float64(); {
	case kind < p.fixed:
		locker = locker.With(quorum.WithFixedLease(p.lease))
	case kind > 0.9:
		locker = locker.With(quorum.WithMaxHold(p.unit + p.unit/2))
	}
	lock := locker.Lock
	if f.rng.IntN(4) == 0 {
		lock = locker.TryLock
	}
	if p.slots > 0 {
		lock = f.takesSlots(locker)
	}
	if p.reads > 0 && f.rng.Float64() < p.reads {
		names = names[:1]
		rw := locker.RWLock(names[0])
		read := rw.RLock
		if f.rng.IntN(4) == 0 {
			read = rw.TryRLock
		}
		lock = func(ctx context.Context, _ ...string) (*quorum.Lock, error) { return read(ctx) }
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	limit := time.Duration(f.rng.ExpFloat64() * float64(p.unit))
	switch f.rng.IntN(4) {
	case 0: // the context spans the work too
		var end context.CancelFunc
		ctx, end = f.within(ctx, 2*limit)
		defer end()
	case 1:
		givesUp := time.AfterFunc(time.Until(f.due(limit)), cancel)
		defer givesUp.Stop()
	}

	if p.handsOver && f.takeOver(locker, c, limit) {
		return
	}
	certain := w.lists.certain(c)
	call := time.Now()
	got, err := lock(ctx, names...)
	if err != nil {
		w.refused(c, names, err, certain)
		return
	}
	if !got.Valid() && !c.closed.Load() {
		w.fail("client %d: Lock returned %s, which is no longer valid", f.machine.id, got.Owner())
	}
	r := c.follow(got, call, time.Now())
	w.count("acquired")
	if got.Shared() {
		w.count("acquired by readers")
	}
	w.trace.add("client %d  %s: holds %v, token %d, until %v", f.machine.id, got.Owner(), names, got.Token(),
		r.until().Sub(w.Start()))
	f.turn()
	f.hold(r, locker)
	f.release(c, r, limit)
}

// release ends a lock, within the limit.
func (f *flow) release(c *client, r *record, limit time.Duration) {
	p, w, got := f.world.plan, f.world, r.lock
	ctx, end := f.within(w.ctx, limit)
	defer end()
	err := f.end(ctx, r)
	f.turn()
	if err != nil && !expected(err) && !(c.closed.Load() && errors.Is(err, quorum.ErrClosed)) {
		w.fail("client %d: unlock of %s: %v", f.machine.id, got.Owner(), err)
	}
	switch {
	case errors.Is(err, quorum.ErrLost):
		w.count("lost")
	case errors.Is(err, quorum.ErrUnavailable) && p.calm():
		w.fail("client %d: without any fault, unlocking %s: %v", f.machine.id, got.Owner(), err)
	}
}

// expected reports whether an Unlock may return the error.
func expected(err error) bool {
	return slices.ContainsFunc([]error{quorum.ErrLost, quorum.ErrNotHeld, quorum.ErrUnavailable,
		context.DeadlineExceeded, context.Canceled}, func(target error) bool { return errors.Is(err, target) })
}

// hold works with the lock for a random time or until the lock ends: it writes the protected
// resource, enters again, and extends.
func (f *flow) hold(r *record, locker *quorum.Locker) {
	p := f.world.plan
	enough := time.Now().Add(time.Duration(f.rng.Float64() * p.longest * float64(p.unit)))
	for again := true; again; {
		f.work(r)
		time.Sleep(min(time.Until(enough), time.Duration(f.rng.ExpFloat64()*0.3*float64(p.unit))))
		f.turn()
		again = time.Now().Before(enough) && r.lock.Context().Err() == nil
		switch f.rng.IntN(5) {
		case 0:
			f.enter(r, locker)
		case 1:
			ctx, end := f.within(f.world.ctx, p.unit/2)
			r.lock.Extend(ctx, p.lease) // the deadline shows the result
			end()
			f.turn()
		case 2:
			if p.reads > 0 && len(r.lock.Names()) == 1 && !r.lock.Shared() {
				f.downgrade(r)
			}
		}
	}
	if r.lock.Context().Err() != nil && f.rng.IntN(2) == 0 { // a holder that ignores its context
		f.rest(0.5)
		f.work(r)
	}
}

// downgrade makes a reader of the holder.
func (f *flow) downgrade(r *record) {
	ctx, end := f.within(f.world.ctx, f.world.plan.unit/2)
	defer end()
	call := time.Now()
	err := r.lock.Downgrade(ctx)
	if r.lock.Shared() {
		r.lowered = []history.Event{{Kind: history.Downgraded, Depth: 1, Call: call.UnixNano(), Return: time.Now().UnixNano()}}
		f.world.count("downgraded")
	}
	f.world.trace.add("client %d  %s: downgraded, %v", f.machine.id, r.lock.Owner(), err)
	if errors.Is(err, quorum.ErrInvalid) {
		f.world.fail("client %d: downgrading %s: %v", f.machine.id, r.lock.Owner(), err)
	}
	f.turn()
}

// enter enters the lock again, and releases that depth. A slot can't be entered again.
func (f *flow) enter(r *record, locker *quorum.Locker) {
	p := f.world.plan
	if p.slots > 0 {
		return
	}
	ctx, end := f.within(r.lock.Context(), p.unit/2)
	defer end()
	call := time.Now()
	lock := func(ctx context.Context) (*quorum.Lock, error) { return locker.Lock(ctx, r.lock.Names()...) }
	if r.lock.Shared() {
		lock = locker.RWLock(r.lock.Names()[0]).RLock
	}
	inner, err := lock(ctx)
	defer f.turn()
	if err != nil {
		if !errors.Is(err, quorum.ErrNotAcquired) {
			f.world.fail("client %d: entering %s again: %v", f.machine.id, r.lock.Owner(), err)
		}
		return
	}
	if inner.Owner() != r.lock.Owner() { // the lock was lost meanwhile, and this is another one
		r.client.follow(inner, call, time.Now()).unlock(f.world.ctx)
		return
	}
	f.world.count("entered again")
	r.addEvents(history.Event{Kind: history.Acquired, Depth: 2, Token: inner.Token(), Call: call.UnixNano(),
		Return: time.Now().UnixNano()})
	f.turn()
	f.rest(0.1)
	call = time.Now()
	inner.Unlock(ctx)
	r.addEvents(history.Event{Kind: history.Released, Depth: 2, Call: call.UnixNano(), Return: time.Now().UnixNano()})
}

// work reads and writes the resource of each name, with pauses in between. The resource must not
// refuse a valid holder.
func (f *flow) work(r *record) {
	for _, name := range keysOf(r.lock) {
		register := f.world.registers[name]
		token := r.lock.Token()
		accesses := []func() error{func() error { return register.ReadShared(token) }}
		if !r.lock.Shared() {
			accesses = []func() error{
				func() error { _, err := register.Read(token); return err },
				func() error {
					return register.Write(token, fmt.Sprint(f.machine.id, f.id, time.Since(f.world.Start())))
				},
			}
		}
		for _, access := range accesses {
			valid := r.valid()
			switch err := access(); {
			case err == nil && !valid:
				f.world.count("late write accepted")
			case err != nil && valid && !f.world.plan.dishonest():
				f.world.fail("client %d: %s is valid, and the resource refused it: %v", f.machine.id, r.lock.Owner(),
					err)
			case err != nil:
				f.world.count("late write fenced off")
				return
			}
			f.rest(0.02)
		}
	}
}

// lockAfterFaults locks a name once all faults have ended. Nothing may prevent that.
func (f *flow) lockAfterFaults(name string) {
	ctx, end := f.within(f.world.ctx, f.world.plan.bound)
	defer end()
	defer f.turn()
	call := time.Now()
	c := f.current()
	lock := c.locker.Lock
	if f.world.plan.slots > 0 {
		lock = func(ctx context.Context, _ ...string) (*quorum.Lock, error) {
			return semaphore.New(c.locker, semaphoreName, f.world.plan.slots).Acquire(ctx)
		}
	}
	got, err := lock(ctx, name)
	if err != nil {
		f.world.fail("client %d: stranded: %q not locked %v after all faults had ended: %v", f.machine.id, name,
			time.Since(call), err)
		return
	}
	f.world.waited(time.Since(call))
	r := c.follow(got, call, time.Now())
	f.world.trace.add("client %d  %s: holds %q at the end", c.id, got.Owner(), name)
	time.Sleep(time.Millisecond)
	f.turn()
	if err := r.unlock(ctx); err != nil {
		f.world.fail("client %d: after all faults had ended, unlocking %s: %v", c.id, got.Owner(), err)
	}
}
