// Package standin starts masters inside this process that answer at addresses, as package redistest's do: each is a
// stand-in of package fakeredis.
package standin

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// Start starts n masters. They know what the library sends, and no other scripts and databases.
func Start(n int) (*redistest.Fleet, error) { return WithClock(n, time.Now) }

// WithClock is [Start] of masters whose clocks show now.
func WithClock(n int, now func() time.Time) (*redistest.Fleet, error) {
	return redistest.StartEmbedded(n, func() redistest.Embedded { return fakeredis.New(now, rand.Uint64()) })
}

// test is the part of a testing.TB that ForTest uses. The demo links this package.
type test interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
	Error(args ...any)
}

// ForTest is [Start] of masters that end with the test.
func ForTest(t test, n int) *redistest.Fleet {
	t.Helper()
	fleet, err := Start(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Stop(); err != nil {
			t.Error(err)
		}
	})
	return fleet
}
