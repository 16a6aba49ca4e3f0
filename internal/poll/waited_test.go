package poll

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Threads that share a processor wait for it. Not parallel: it changes GOMAXPROCS.
func TestWaited(t *testing.T) {
	if text, err := os.ReadFile("/proc/self/schedstat"); err != nil || strings.HasPrefix(string(text), "0 0 ") {
		t.Skipf("SKIPPED: the kernel does not say for how long threads wait: %q, %v", text, err)
	}
	const each = 200 * time.Millisecond
	threads := 4 * runtime.NumCPU()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	before, began := Waited(), time.Now()
	var busy sync.WaitGroup
	for range threads {
		busy.Go(func() {
			for time.Since(began) < each {
			}
		})
	}
	busy.Wait()
	// At any time three of four wait. What the runtime does besides takes some.
	if waited, least := Waited()-before, each*time.Duration(threads)/4; waited < least {
		t.Errorf("%d threads on %d processors waited for %v in %v, want at least %v", threads, runtime.NumCPU(), waited, each, least)
	}
}
