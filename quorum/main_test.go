package quorum

import (
	"log/slog"
	"testing"

	"github.com/quorumlock/quorumlock/internal/world"
	"go.uber.org/goleak"
)

// TestMain silences the default logger: the log of a test that wants one is set by it.
func TestMain(m *testing.M) {
	world.OneProcessor()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}
