// Package lockers has what packages operator and semaphore, and quorumlock run, reach of a *quorum.Locker and of a
// *semaphore.Semaphore, by inside.Of.
package lockers

import (
	"context"

	"github.com/quorumlock/quorumlock/quorum/internal/queue"
)

// Inside is a Locker, or a Semaphore and its Locker. L is *quorum.Lock, which this package cannot import.
type Inside[L any] interface {
	// Waiters returns the list of calls that wait, which has the Engine.
	Waiters() *queue.List
	// Acquire acquires the slots that are wanted, in turns, and waits for a release if it may.
	Acquire(ctx context.Context, wants queue.Wanted, by queue.Turn, waits bool) (L, error)
	// Do runs fn with the lock, and unlocks it.
	Do(ctx context.Context, lock L, fn func(ctx context.Context, lock L) error) error
	// LastErrors returns the error of each node's last reply about the lock: a *node.Error, or nil.
	LastErrors(lock L) []error
	// Refuse returns why calls for the names are refused, or nil.
	Refuse(op string, names []string) error
	// Failed returns the error of a call, with those of the nodes that failed.
	Failed(op, name string, nodes []error, causes ...error) error
	// Invalid returns the error of an argument.
	Invalid(op string, names []string, format string, args ...any) error
}
