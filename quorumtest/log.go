package quorumtest

import (
	"log/slog"
	"sync"
	"testing"
)

// testLog is the output of one test, which shows it when it fails. After the test's end nobody may
// write there: what comes then is dropped.
type testLog struct {
	mu sync.Mutex
	tb testing.TB // nil after the end
}

// newLogger returns a logger to the output of the test.
func newLogger(tb testing.TB) *slog.Logger {
	l := &testLog{tb: tb}
	tb.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tb = nil
	})
	return slog.New(slog.NewTextHandler(l, nil))
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tb == nil {
		return len(line), nil
	}
	return l.tb.Output().Write(line)
}
