// Package steps runs goroutines one step at a time, in an order that a search chooses. A search compiles shipped code with
// [Mutex] in place of sync.Mutex. A goroutine that is about to lock one, or calls [Step], waits until the search lets it
// go on: so a step is what it does up to the next such place. All of it happens in one bubble of testing/synctest.
package steps

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
)

// Mutex is a sync.Mutex that makes a step of each section.
type Mutex struct {
	mu    sync.Mutex
	owner string // the goroutine that has locked it, while a Schedule runs
}

// current is the schedule that runs, nil for none.
var current *Schedule

func (m *Mutex) Lock() {
	if s := current; s != nil && !s.looks {
		s.wait(m, caller())
		return // the driver has locked it
	}
	m.mu.Lock()
}

func (m *Mutex) Unlock() {
	if s := current; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if m.owner != "" {
			if s.held[m.owner]--; s.held[m.owner] == 0 {
				delete(s.held, m.owner)
			}
			m.owner = ""
		}
	}
	m.mu.Unlock()
}

// Step makes a step of what follows. Without a schedule it does nothing.
func Step(label string) {
	if s := current; s != nil {
		s.wait(nil, label)
	}
}

// HoldsMutex reports whether the calling goroutine has locked a Mutex.
func HoldsMutex() bool {
	s := current
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0 && s.held[goroutine()] > 0
}

// Schedule is one order of steps. Its driver is the goroutine that has made it.
type Schedule struct {
	looks bool // the driver does, while all others wait: its sections are no steps

	mu     sync.Mutex
	parked []*parked
	held   map[string]int  // how many mutexes, by goroutine
	ran    string          // the goroutine that has gone on last
	passed map[string]bool // goroutines that were passed over, and have not gone on since
}

type parked struct {
	label     string
	goroutine string
	mutex     *Mutex
	goOn      chan struct{}
	seen      bool // by Enabled
}

// Begin makes steps of what goroutines do from now on. The caller ends it by End.
func Begin() *Schedule {
	current = &Schedule{held: map[string]int{}, passed: map[string]bool{}}
	return current
}

// End lets all goroutines run as they like.
func (s *Schedule) End() {
	synctest.Wait() // what has gone on last may come to wait
	s.mu.Lock()
	all := s.parked
	s.parked = nil
	s.mu.Unlock()
	current = nil
	for _, p := range all {
		if p.mutex != nil {
			go func() { p.mutex.mu.Lock(); close(p.goOn) }()
			continue
		}
		close(p.goOn)
	}
}

// Enabled waits until every goroutine waits, and returns the labels of those that can go on: first the one that has gone on
// last, then the others in the order they came to wait, and at the end those that were passed over.
func (s *Schedule) Enabled() (labels []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	rank := func(p *parked) int {
		switch {
		case s.passed[p.goroutine]:
			return 2
		case p.goroutine == s.ran:
			return 0
		}
		return 1
	}
	// Those that have come since came in an order that the search has not chosen.
	if fresh := slices.IndexFunc(s.parked, func(p *parked) bool { return !p.seen }); fresh >= 0 {
		slices.SortStableFunc(s.parked[fresh:], func(a, b *parked) int { return strings.Compare(a.label, b.label) })
	}
	for _, p := range s.parked {
		p.seen = true
	}
	slices.SortStableFunc(s.parked, func(a, b *parked) int { return rank(a) - rank(b) })
	for _, p := range s.enabledLocked() {
		labels = append(labels, p.label)
	}
	return labels
}

func (s *Schedule) enabledLocked() (all []*parked) {
	for _, p := range s.parked {
		if p.mutex == nil || p.mutex.owner == "" {
			all = append(all, p)
		}
	}
	return all
}

// Blocked describes the goroutines that wait for a mutex that another has locked.
func (s *Schedule) Blocked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, p := range s.parked {
		if p.mutex != nil && p.mutex.owner != "" {
			all = append(all, p.label)
		}
	}
	return strings.Join(all, ", ")
}

// Look calls look if no goroutine is between Lock and Unlock. The caller has called Enabled, and has let none go on since.
func (s *Schedule) Look(look func()) {
	s.mu.Lock()
	isQuiet := len(s.held) == 0
	s.mu.Unlock()
	if isQuiet {
		s.looks = true
		look()
		s.looks = false
	}
}

// Go lets the i-th of the enabled goroutines go on. Those before it are passed over: they go on when no other can.
func (s *Schedule) Go(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	enabled := s.enabledLocked()
	p := enabled[i]
	for _, over := range enabled[:i] {
		s.passed[over.goroutine] = true
	}
	delete(s.passed, p.goroutine)
	s.parked = slices.DeleteFunc(s.parked, func(other *parked) bool { return other == p })
	s.ran = p.goroutine
	if p.mutex != nil {
		p.mutex.mu.Lock() // nobody has it
		p.mutex.owner = p.goroutine
		s.held[p.goroutine]++
	}
	close(p.goOn)
}

func (s *Schedule) wait(m *Mutex, label string) {
	p := &parked{label: label, goroutine: goroutine(), mutex: m, goOn: make(chan struct{})}
	s.mu.Lock()
	s.parked = append(s.parked, p)
	s.mu.Unlock()
	<-p.goOn
}

// goroutine returns the number of the calling goroutine. It takes a quarter of a search's time.
func goroutine() string {
	var room [64]byte
	text := strings.TrimPrefix(string(room[:runtime.Stack(room[:], false)]), "goroutine ")
	number, _, _ := strings.Cut(text, " ")
	return number
}

// caller names the function that locks a mutex, and that one's caller.
func caller() string {
	var all [2]uintptr
	runtime.Callers(3, all[:])
	frames := runtime.CallersFrames(all[:])
	first, _ := frames.Next()
	second, _ := frames.Next()
	short := func(name string) string { return name[strings.LastIndex(name, "/")+1:] }
	return fmt.Sprintf("%s < %s", short(first.Function), short(second.Function))
}
