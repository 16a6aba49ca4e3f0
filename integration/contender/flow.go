package contender

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/register"
)

const unlockBound = 3 * time.Second

// flow is one goroutine that contends.
type flow struct {
	*process
	rng *rand.Rand
}

// run plays rounds until the context ends.
func (f *flow) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := f.round(ctx); err != nil {
			return err
		}
		f.wait(ctx, f.below(f.plan.Rest))
	}
	return nil
}

// round locks, reads, holds, writes and unlocks once. Its error is a failure of the test itself: of the register.
func (f *flow) round(ctx context.Context) error {
	name := f.plan.Names[f.rng.IntN(len(f.plan.Names))]
	f.gate(ToLock, func() {})
	if ctx.Err() != nil {
		return nil
	}
	// A held lock is released in good order, so its context outlives ctx.
	spanning, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	timeout := time.AfterFunc(f.plan.Patience, cancel)
	stopped := context.AfterFunc(ctx, cancel)
	called := Now()
	lock, err := f.locker.Lock(spanning, name)
	returned := Now()
	timeout.Stop()
	stopped()
	if err != nil {
		f.report(Report{Did: Refused, Name: name, Err: err.Error(), Took: time.Duration(returned - called)})
		return nil
	}
	if slot, ok := lock.(interface{ Slots() []int }); ok && f.plan.Slots > 0 {
		name = fmt.Sprintf("%s slot %d", name, slot.Slots()[0])
	}
	h := &held{flow: f, lock: lock, name: name, alive: returned, acquired: history.Event{
		Client: f.plan.Client, Name: name, Owner: lock.Owner(), Depth: 1, Kind: history.Acquired, Token: lock.Token(),
		Call: called, Return: returned,
	}}
	h.recordDeadline()
	f.report(Report{Did: Acquired, Name: name, Token: lock.Token(), Took: time.Duration(returned - called)})
	defer h.release()
	return h.use()
}

// held is a lock that the flow believes to hold.
type held struct {
	*flow
	lock     Lock
	name     string
	acquired history.Event
	recorded bool
	alive    int64 // the last check that found the lock held
	lost     bool
}

// use reads the register, and after a while writes the value plus one.
func (h *held) use() error {
	value, err := ask(h.register, Access{Name: h.name, Token: h.lock.Token()})
	if err != nil {
		return h.refused(err)
	}
	h.did(Read)
	h.watch(h.below(h.plan.Hold))
	h.gate(ToWrite, h.check)
	if !h.plan.Careless && (h.lost || !h.lock.Valid()) {
		h.did(Withheld)
		return nil
	}
	if _, err := ask(h.register, Access{Name: h.name, Token: h.lock.Token(), Write: true, Value: value + 1}); err != nil {
		return h.refused(err)
	}
	h.did(Wrote)
	return nil
}

func (h *held) did(what string) { h.report(Report{Did: what, Name: h.name, Token: h.lock.Token()}) }

// refused reports a stale token. Another error of the register is the test's own.
func (h *held) refused(err error) error {
	if !errors.Is(err, register.ErrStale) {
		return err
	}
	h.did(Stale)
	return nil
}

// watch holds the lock for some time, as long as it can be trusted.
func (h *held) watch(hold time.Duration) {
	end := time.NewTimer(hold)
	defer end.Stop()
	again := time.NewTicker(checkEvery)
	defer again.Stop()
	defer h.check()
	for {
		select {
		case <-end.C:
			return
		case <-h.lock.Context().Done():
			return
		case <-again.C:
			h.check()
		}
	}
}

// checkEvery is the precision of the known end of a lock that ends before its deadline.
const checkEvery = 2 * time.Millisecond

// check records a new deadline, or the loss of the lock. A lock that ends before its deadline (the
// nodes deny it, and the rest of it was released) ended at some time since the last check, and
// another client may already hold it.
func (h *held) check() {
	now := Now()
	if h.recordDeadline(); h.lost {
		return
	}
	if h.lock.Context().Err() == nil {
		h.alive = now
		return
	}
	h.lost = true
	ended := Now()
	if h.acquired.Deadline == 0 || ended < h.acquired.Deadline {
		ended = h.alive
	}
	h.report(Report{Did: Lost, Name: h.name, Token: h.lock.Token(), Err: context.Cause(h.lock.Context()).Error()})
	h.record(history.Lost, ended, Now())
}

// recordDeadline records the deadline unless it was recorded before.
func (h *held) recordDeadline() {
	deadline := h.acquired.Deadline
	if until := h.lock.Deadline(); !until.IsZero() {
		deadline = At(until)
	}
	// A difference below a millisecond comes from reading two clocks.
	if h.recorded && deadline-h.acquired.Deadline < int64(time.Millisecond) {
		return
	}
	h.recorded = true
	h.acquired.Deadline = max(deadline, h.acquired.Deadline)
	h.record(history.Acquired, h.acquired.Call, h.acquired.Return)
}

func (h *held) release() {
	h.gate(ToUnlock, h.check)
	h.check()
	ctx, cancel := context.WithTimeout(context.Background(), unlockBound)
	defer cancel()
	called := Now()
	if !h.lost {
		// Before Unlock: a process that is killed during Unlock holds no longer, and cannot record
		// that afterwards.
		h.record(history.Released, called, history.Unknown)
	}
	err := h.lock.Unlock(ctx)
	returned := Now()
	report := Report{Did: Released, Name: h.name, Token: h.lock.Token(), Took: time.Duration(returned - called)}
	if err != nil {
		report.Did, report.Err = Unreleased, err.Error()
	}
	h.report(report)
	if !h.lost { // else the loss was its end
		h.record(history.Released, called, returned)
	}
}

func (h *held) record(kind history.Kind, call, ret int64) {
	e := h.acquired
	e.Kind, e.Call, e.Return = kind, call, ret
	h.report(Report{Did: Recorded, Event: &e})
}

func (f *flow) below(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/4 + time.Duration(f.rng.Int64N(int64(d-d/4)))
}

func (f *flow) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
