package events

import (
	"runtime"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueueKeepsTheOrder(t *testing.T) {
	var q Queue
	var got, want []int
	for i := range 1000 {
		if i%100 == 0 {
			<-q.Idle()
		}
		want = append(want, i)
		q.Post(func() { got = append(got, i) }) // without a race: they run one after the other
	}
	<-q.Idle()
	testkit.Check(t, slices.Equal(got, want), "ran %d functions, not 0 to 999 in order: %v", len(got), got)
	testkit.Equal(t, q.Dropped(), 0, "dropped")
}

// A function that ends its goroutine, as t.FailNow does, takes no other with it.
func TestFunctionThatEndsItsGoroutine(t *testing.T) {
	var q Queue
	ran := 0
	for range 3 {
		q.Post(func() { ran++; runtime.Goexit() })
	}
	<-q.Idle()
	testkit.Equal(t, ran, 3, "functions that ran")
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
	testkit.Equal(t, q.Dropped(), 5, "dropped")
	close(goOn)
	<-q.Idle()
	testkit.Equal(t, ran, MaxWaiting, "functions that ran")
}
