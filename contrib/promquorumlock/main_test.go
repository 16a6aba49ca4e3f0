package promquorumlock_test

import (
	"context"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
