package multilock_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenRefusesNone(t *testing.T) {
	if _, err := multilock.Open(nil); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("Open of none: %v; want ErrInvalid", err)
	}
	if _, err := multilock.New(nil); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("New of none: %v; want ErrInvalid", err)
	}
}

func TestHoldsByAllAndLeavesNothing(t *testing.T) {
	fleet := standin.ForTest(t, 2) // an even number is as good as any
	locker, err := multilock.Open(fleet.URLs(), quorum.WithNodeOptions(node.WithTimeout(10*time.Second), node.WithoutQuarantine()),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	testkit.Must(t, err)
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.TryLock(ctx, "a")
	testkit.Must(t, err)
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}
	fleet.Masters[1].Kill()
	if _, err := locker.TryLock(ctx, "a"); !errors.Is(err, quorum.ErrNotAcquired) || !errors.Is(err, quorum.ErrUnavailable) {
		t.Errorf("with one of two: %v; want ErrNotAcquired and ErrUnavailable", err)
	}
	testkit.Eventually(t, "a failed attempt's key gone from the living master", func() bool { return testkit.Do(t, fleet.Masters[0], "EXISTS", "a") == int64(0) })
}
