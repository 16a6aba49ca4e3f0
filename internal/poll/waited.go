package poll

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Waited returns for how long the threads of this process have waited for a processor, all together,
// since they began. One goroutine may be late by as much while a Stopwatch, on another thread, is on
// time. It is 0 where the kernel does not say (Linux does).
func Waited() (all time.Duration) {
	threads, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			all += waited
		}
	}
	return all
}
