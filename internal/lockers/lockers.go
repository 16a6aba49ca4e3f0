// Package lockers lets package operator reach the inside of a *quorum.Locker and of a *quorum.Semaphore. The types embed
// [Embedded], whose method no other package can name.
package lockers

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
)

// Inside is a Locker, or a Semaphore and its Locker.
type Inside interface {
	Masters() (nodes []*node.Node, quorum quorate.Rule, maxLease time.Duration)
	// Refuse returns why calls for the names are refused, or nil.
	Refuse(op string, names []string) error
	// OtherList returns why a master with that marker does not count, or nil.
	OtherList(marker string) error
	// NodeError makes the error of a call that failed on a node, nil for nil.
	NodeError(node int, op string, err error) error
	// Unavailable makes the error of a call that failed on too many nodes, or nil.
	Unavailable(ctx context.Context, op, name string, errs []error) error
	// Invalid makes the error of an argument.
	Invalid(op string, names []string, format string, args ...any) error
}

// Embedded ties a *quorum.Locker or *quorum.Semaphore, which embeds it, to its inside.
type Embedded struct{ of Inside }

// Embed returns what the Locker or Semaphore of that inside embeds.
func Embed(of Inside) Embedded { return Embedded{of} }

func (e *Embedded) inside() Inside { return e.of }

// Of returns the inside of a *quorum.Locker or *quorum.Semaphore.
func Of(l interface{ inside() Inside }) Inside { return l.inside() }
