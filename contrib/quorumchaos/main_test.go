package quorumchaos_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // masters die all the time
	goleak.VerifyTestMain(m)
}
