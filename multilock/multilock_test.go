package multilock_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
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
	fleet, err := redistest.StartEmbedded(2) // an even number is as good as any
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Stop()
	locker, err := multilock.Open(fleet.URLs(), quorum.WithNodeOptions(node.WithTimeout(10*time.Second), node.WithoutQuarantine()),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.TryLock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}
	fleet.Masters[1].Kill()
	if _, err := locker.TryLock(ctx, "a"); !errors.Is(err, quorum.ErrNotAcquired) || !errors.Is(err, quorum.ErrUnavailable) {
		t.Errorf("with one of two: %v; want ErrNotAcquired and ErrUnavailable", err)
	}
	if !poll.Until(10*time.Second, func() bool { left, err := fleet.Masters[0].Do("EXISTS", "a"); return err == nil && left == int64(0) }) {
		t.Error("after a failed attempt the key is left on the living master")
	}
}
