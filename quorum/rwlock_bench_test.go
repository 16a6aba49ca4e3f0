package quorum_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// BenchmarkPairs measures a reader's pair of calls beside a lock's, alone at the name, and beside 10,000 readers.
func BenchmarkPairs(b *testing.B) {
	fleet, err := redistest.StartReal(3)
	if errors.Is(err, redistest.ErrNoServer) {
		b.Skipf("needs a real server: %v", err)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { fleet.Stop() })
	locker, err := redlock.Open(fleet.URLs(), quorum.WithNodeOptions(node.WithoutQuarantine()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { locker.Close() })
	pair := func(b *testing.B, lock func(context.Context) (*quorum.Lock, error)) {
		for b.Loop() {
			held, err := lock(b.Context())
			if err == nil {
				err = held.Unlock(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("lock", func(b *testing.B) { pair(b, locker.RWLock("a").Lock) })
	b.Run("reader", func(b *testing.B) { pair(b, locker.RWLock("b").RLock) })
	b.Run("reader beside 10,000", func(b *testing.B) {
		rw := locker.RWLock("c")
		for range 10_000 {
			if _, err := rw.RLock(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ResetTimer()
		pair(b, rw.RLock)
	})
}
