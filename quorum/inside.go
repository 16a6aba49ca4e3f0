package quorum

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/lockers"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// embedded lets package operator reach the inside of a Locker or a Semaphore, and nobody else.
type embedded = lockers.Embedded

// insideLocker is what package operator needs of a Locker.
type insideLocker struct{ *Locker }

func (l insideLocker) Masters() ([]*node.Node, quorate.Rule, time.Duration) {
	return l.core.Nodes, l.core.Quorum, l.core.maxLease
}

func (l insideLocker) Refuse(op string, names []string) error { return l.refuse(op, names) }

func (l insideLocker) OtherList(marker string) error { return l.core.Roster.OtherList(marker) }

func (l insideLocker) NodeError(node int, op string, err error) error {
	return l.core.NodeError(node, op, err)
}

func (l insideLocker) Invalid(op string, names []string, format string, args ...any) error {
	return invalidf(op, names, format, args...)
}

func (l insideLocker) Unavailable(ctx context.Context, op, name string, errs []error) error {
	e := &Error{Op: op, Names: []string{name}}
	var failed quorate.Set
	for i, err := range errs {
		if err != nil {
			failed |= quorate.Of(i)
			e.addNodes(l.core.NodeError(i, op, err))
		}
	}
	if !l.core.Quorum.Blocks(failed) {
		return nil
	}
	e.causes = append([]error{ErrUnavailable}, contextError(ctx)...)
	if semaphore, slot, isSlot := scripts.ParseSlot(name); isSlot {
		e.Names, e.slots = []string{semaphore}, []int{slot}
	}
	return e
}

// insideSemaphore is the same of a Semaphore, which knows its only name.
type insideSemaphore struct {
	insideLocker
	sem *Semaphore
}

func (s *insideSemaphore) Refuse(op string, _ []string) error { return s.sem.usable(op) }
