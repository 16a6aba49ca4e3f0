// Package testlock is how packages quorum and quorumtest agree on a lock that no master has
// granted. It keeps such a lock out of quorum's own interface, where a program could make one by
// mistake.
package testlock

import (
	"context"
	"sync"
)

// Key is the key of a lock in a context: of package quorum's *Lock, or of a [*Lock] of a test.
type Key struct{}

// Lock describes a lock for a test.
type Lock struct {
	Names   []string
	Token   uint64
	Parent  context.Context
	Context context.Context // derived from Parent; Key leads to the Lock
	End     context.CancelCauseFunc

	once   sync.Once
	handle any
}

// New returns the description of a lock in a new context.
func New(parent context.Context, token uint64, names []string) *Lock {
	l := &Lock{Names: names, Token: token, Parent: parent}
	l.Context, l.End = context.WithCancelCause(context.WithValue(parent, Key{}, l))
	return l
}

// Handle returns what make returned at its first call, which makes package quorum's *Lock.
func (l *Lock) Handle(make func() any) any {
	l.once.Do(func() { l.handle = make() })
	return l.handle
}
