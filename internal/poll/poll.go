// Package poll waits for conditions in tests, and measures how long something took without the times in which the
// machine stood still.
package poll

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Until calls a condition every few milliseconds until it holds, for at most bound, and reports
// whether it held.
func Until(bound time.Duration, holds func() bool) bool {
	late := time.NewTimer(bound)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-late.C:
			return holds()
		}
	}
	return true
}

// beat is how often a stopwatch looks whether the machine is on time.
const beat = time.Millisecond

// Stopwatch measures how long something took, and for how long the machine kept this process
// waiting meanwhile. A test of a bound in real time judges by both.
type Stopwatch struct {
	began time.Time
	end   func()

	mu      sync.Mutex
	beatAt  time.Time     // when the current beat began
	stalled time.Duration // by how much the beats before it were late
}

// Start returns a stopwatch that runs until Stop.
func Start() *Stopwatch {
	now := time.Now()
	s := &Stopwatch{began: now, beatAt: now}
	stop, stopped := make(chan struct{}), make(chan struct{})
	s.end = sync.OnceFunc(func() { close(stop); <-stopped })
	go func() {
		defer close(stopped)
		for again := time.NewTimer(beat); ; again.Reset(beat) {
			select {
			case <-again.C:
				s.mu.Lock()
				now := time.Now()
				s.stalled, s.beatAt = s.stalled+lateness(now.Sub(s.beatAt)), now
				s.mu.Unlock()
			case <-stop:
				again.Stop()
				return
			}
		}
	}()
	return s
}

// lateness returns by how much a beat was late. A timer of an idle machine may be late by as much as
// a beat.
func lateness(took time.Duration) time.Duration { return max(0, took-2*beat) }

// Began returns the instant of Start.
func (s *Stopwatch) Began() time.Time { return s.began }

// Read returns the time since Start, and for how much of it the machine stood still.
func (s *Stopwatch) Read() (took, stalled time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return now.Sub(s.began), s.stalled + lateness(now.Sub(s.beatAt))
}

// Stop ends the stopwatch.
func (s *Stopwatch) Stop() { s.end() }

// AtMost returns how long something may take that takes at most want on an idle machine, if this process
// stood still for stalled meanwhile. Work that waits for the processor several times, here and in
// servers, meets more stalls than one process alone: hence the factor.
func AtMost(want, stalled time.Duration) time.Duration { return want + 4*stalled }

// Waited returns for how long the threads of this process have waited for a processor, all together, since they
// began, and for how long processors have stood still because a virtual machine's host took them. One goroutine may be
// late by as much while a Stopwatch, on another thread, is on time. They are 0 if the kernel does not say (Linux does).
func Waited() (threads, processors time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			threads += waited
		}
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return threads, 0
	}
	return threads, stolen(string(stat))
}

// stolen reads from /proc/stat for how long the host has had the processors. A thread that runs meanwhile does not
// count it as waiting.
func stolen(stat string) time.Duration {
	const tick = 10 * time.Millisecond // of /proc, on every architecture that Go knows
	var ticks [8]time.Duration         // user, nice, system, idle, iowait, irq, softirq, steal
	_, err := fmt.Sscanf(stat, "cpu %d %d %d %d %d %d %d %d",
		&ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7])
	if err != nil {
		return 0 // an old kernel
	}
	return ticks[7] * tick
}
