//go:build race

package world

import "runtime"

// OneProcessor has the process use one processor if it is built with the race detector. Go 1.26's
// ends the process (SIGSEGV, or "ThreadSanitizer: CHECK failed") when goroutines of one bubble
// receive from expired timers on two processors at one time (golang/go#78156). The detector finds
// races on one processor too: it compares what happens before what.
func OneProcessor() { runtime.GOMAXPROCS(1) }
