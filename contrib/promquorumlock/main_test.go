package promquorumlock_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

var must = testkit.Must
