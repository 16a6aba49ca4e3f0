package quorum

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lockers"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// embedded lets packages operator and semaphore, and no others, reach the inside of a Locker.
type embedded = lockers.Embedded[*Lock]

// insideLocker is what packages operator and semaphore need of a Locker.
type insideLocker struct{ *Locker }

var _ lockers.Inside[*Lock] = insideLocker{}

func (l insideLocker) Engine() *engine.Engine    { return l.engine }
func (l insideLocker) History() *waiting.History { return &l.room.history }
func (l insideLocker) Random(below int) int      { return l.room.random(below) }

func (l insideLocker) Acquire(ctx context.Context, wants queue.Wanted, waits bool) (*Lock, error) {
	if err := endedError(ctx, "lock", wants.Names()); err != nil {
		return nil, err
	}
	c := &call{Locker: l.Locker, wants: wants}
	if waits && l.set.wait > 0 {
		return c.wait(ctx)
	}
	return c.try(ctx)
}

func (l insideLocker) Do(ctx context.Context, lock *Lock, fn func(ctx context.Context, lock *Lock) error) error {
	return lock.do(ctx, fn)
}

func (l insideLocker) Refuse(op string, names []string) error { return l.refuse(op, names) }

func (l insideLocker) Invalid(op string, names []string, format string, args ...any) error {
	return invalidf(op, names, format, args...)
}

func (l insideLocker) Unavailable(ctx context.Context, op, name string, errs []error) error {
	e := &Error{Op: op, Names: []string{name}}
	var failed quorate.Set
	for i, err := range errs {
		if err != nil {
			failed |= quorate.Of(i)
			e.addNodes(l.engine.NodeError(i, op, err))
		}
	}
	if !l.engine.Quorum.Blocks(failed) {
		return nil
	}
	e.causes = append([]error{ErrUnavailable}, engine.EndOf(ctx)...)
	if semaphore, slot, isSlot := scripts.ParseSlot(name); isSlot {
		e.Names, e.slots = []string{semaphore}, []int{slot}
	}
	return e
}
