package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// ended waits until a lock's context ends, and returns its cause.
func ended(t *testing.T, held *quorum.Lock, bound time.Duration) error {
	t.Helper()
	select {
	case <-held.Context().Done():
		return context.Cause(held.Context())
	case <-time.After(bound):
		t.Fatalf("%q: the context has not ended within %v", held.Names(), bound)
		return nil
	}
}
