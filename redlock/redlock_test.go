package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenRefusesNumbersWithoutMajority(t *testing.T) {
	urls := []string{"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3", "redis://127.0.0.1:4"}
	for _, n := range []int{0, 2, 4} {
		if l, err := redlock.Open(urls[:n]); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("Open of %d = %v, %v; want ErrInvalid", n, l, err)
		}
	}
	if _, err := redlock.New(nil); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("New of none: %v; want ErrInvalid", err)
	}
}

func TestHoldsByMajority(t *testing.T) {
	fleet := testkit.Embedded(t, 3)
	locker, err := redlock.Open(fleet.URLs(), quorum.WithNodeOptions(node.WithTimeout(10*time.Second), node.WithoutQuarantine()),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	testkit.Must(t, err)
	defer locker.Close()
	ctx := context.Background()

	fleet.Masters[2].Kill()
	lock, err := locker.TryLock(ctx, "a")
	if err != nil {
		t.Fatalf("with two of three: %v", err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Errorf("Unlock with two of three: %v", err)
	}
	fleet.Masters[1].Kill()
	if _, err := locker.TryLock(ctx, "a"); !errors.Is(err, quorum.ErrNotAcquired) || !errors.Is(err, quorum.ErrUnavailable) {
		t.Errorf("with one of three: %v; want ErrNotAcquired and ErrUnavailable", err)
	}
}
