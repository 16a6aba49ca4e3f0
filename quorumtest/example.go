package quorumtest

import (
	"io"
	"log"
	"slices"
	"sync"
	"testing"
)

// ForExample is [Start] for an Example, which has no testing.TB. end does what the end of a test would. A
// failure ends the program.
func ForExample(n int) (m *Masters, end func()) {
	tb := new(exampleTB)
	return Start(tb, n), tb.end
}

// exampleTB has the methods of a testing.TB that Masters call.
type exampleTB struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
}

func (*exampleTB) Helper()                           {}
func (*exampleTB) Output() io.Writer                 { return io.Discard }
func (*exampleTB) Errorf(format string, args ...any) { log.Fatalf(format, args...) }
func (*exampleTB) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (tb *exampleTB) Cleanup(f func()) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.cleanups = append(tb.cleanups, f)
}

func (tb *exampleTB) end() {
	tb.mu.Lock()
	cleanups := tb.cleanups
	tb.cleanups = nil
	tb.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
}
