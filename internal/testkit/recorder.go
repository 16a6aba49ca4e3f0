package testkit

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// Recorder is a test that notes how it fails, for tests of what gets a testing.TB.
type Recorder struct {
	testing.TB
	Died, Left string   // what Fatalf and Skipf said
	Said       []string // by Error and Errorf
	Logged     []string
	cleanups   []func()
}

func (r *Recorder) Helper()                      {}
func (r *Recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *Recorder) Failed() bool                 { return r.Died != "" || len(r.Said) > 0 }
func (r *Recorder) Error(args ...any)            { r.Said = append(r.Said, fmt.Sprint(args...)) }
func (r *Recorder) Errorf(f string, args ...any) { r.Said = append(r.Said, fmt.Sprintf(f, args...)) }
func (r *Recorder) Logf(f string, args ...any)   { r.Logged = append(r.Logged, fmt.Sprintf(f, args...)) }

func (r *Recorder) Fatalf(f string, args ...any) {
	r.Died = fmt.Sprintf(f, args...)
	runtime.Goexit()
}

func (r *Recorder) Skipf(f string, args ...any) {
	r.Left = fmt.Sprintf(f, args...)
	runtime.Goexit()
}

// Run runs a part of the test, which may end in Fatalf.
func (r *Recorder) Run(part func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		part()
	}()
	<-done
}

// End is the end of the test.
func (r *Recorder) End() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}
