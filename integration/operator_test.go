package integration_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
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

// record keeps what the hooks and the log report.
type record struct {
	mu   sync.Mutex
	told []string
	log  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *record) all() (told, log string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.told, ", "), r.log.String()
}
