package fakeredis

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Keys that nobody asks for again are deleted when they have expired, and no others.
func TestExpiredKeysAreSwept(t *testing.T) {
	now := time.Now()
	m := New(func() time.Time { return now }, 1)
	const kept = 3000
	for i := range 100_000 {
		if i < kept {
			m.Set(fmt.Sprint("kept:", i), "x")
		}
		m.mu.Lock()
		m.openLocked().set(fmt.Sprint(i), "x", 1)
		m.mu.Unlock()
		now = now.Add(time.Millisecond)
	}
	testkit.Check(t, len(m.data) < 3*kept, "%d keys are in memory", len(m.data))
	testkit.Check(t, len(m.Keys()) >= kept, "%d keys are left", len(m.Keys()))
}

// So are those after which no others come.
func TestTheLastKeysAreSwept(t *testing.T) {
	now := time.Now()
	m := New(func() time.Time { return now }, 1)
	command := func(key string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.openLocked().set(key, "x", 1)
	}
	const keys = 10_000
	for i := range keys {
		command(fmt.Sprint(i))
	}
	now = now.Add(time.Second)
	for range 2 * keys {
		command("another")
	}
	testkit.Equal(t, len(m.data), 1, "keys in memory")
}
