package events

import (
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueueKeepsTheOrder(t *testing.T) {
	var q Queue
	var got, want []int
	for i := range 1000 {
		want = append(want, i)
		q.Post(func() { got = append(got, i) }) // without a race: they run one after the other
	}
	<-q.Idle()
	if !slices.Equal(got, want) {
		t.Errorf("ran %d functions, not 0 to 999 in order: %v", len(got), got)
	}
	if n := q.Dropped(); n != 0 {
		t.Errorf("%d were dropped", n)
	}
}

// A function that ends its goroutine, as t.FailNow does, takes no other with it.
func TestFunctionThatEndsItsGoroutine(t *testing.T) {
	var q Queue
	ran := 0
	for range 3 {
		q.Post(func() { ran++; runtime.Goexit() })
	}
	<-q.Idle()
	if ran != 3 {
		t.Errorf("%d of 3 functions ran", ran)
	}
}

// Behind a function that blocks, Post does not block, and what waits is bounded.
func TestFunctionThatBlocks(t *testing.T) {
	var q Queue
	began, goOn, ran := make(chan struct{}), make(chan struct{}), 0
	q.Post(func() { close(began); <-goOn })
	<-began
	for range MaxWaiting + 5 {
		q.Post(func() { ran++ })
	}
	if n := q.Dropped(); n != 5 {
		t.Errorf("%d were dropped, not 5", n)
	}
	close(goOn)
	<-q.Idle()
	if ran != MaxWaiting {
		t.Errorf("%d ran, not %d", ran, MaxWaiting)
	}
}
