package quorum

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum/internal/lockers"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/scripts"
)

// embedded lets packages operator and semaphore, and quorumlock run, reach the inside of a Locker.
type embedded = inside.Embedded[lockers.Inside[*Lock]]

// insideLocker is what these need of a Locker.
type insideLocker struct{ *Locker }

var _ lockers.Inside[*Lock] = insideLocker{}

func (l insideLocker) Waiters() *queue.List { return l.room.waitlist }

func (l insideLocker) Acquire(ctx context.Context, wants queue.Wanted, by queue.Turn, waits bool) (*Lock, error) {
	if err := endedError(ctx, "lock", wants.Names); err != nil {
		return nil, err
	}
	c := &call{Locker: l.Locker, ctx: ctx, wants: wants, slots: by}
	return c.acquire(waits && l.set.wait > 0)
}

func (l insideLocker) Do(ctx context.Context, lock *Lock, fn func(ctx context.Context, lock *Lock) error) error {
	return lock.do(ctx, fn)
}

func (l insideLocker) LastErrors(lock *Lock) []error { return lock.handle.Hold().LastErrors() }

func (l insideLocker) Refuse(op string, names []string) error { return l.refuse(op, names) }

func (l insideLocker) Invalid(op string, names []string, format string, args ...any) error {
	return invalidf(op, names, format, args...)
}

func (l insideLocker) Failed(op, name string, nodes []error, causes ...error) error {
	e := &Error{Op: op, Names: []string{name}, causes: causes}
	e.addNodes(nodes...)
	if semaphore, slot, isSlot := scripts.ParseSlot(name); isSlot {
		e.Names, e.slots = []string{semaphore}, []int{slot}
	}
	return e
}
