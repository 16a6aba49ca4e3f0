package queue

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/bubble"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// A node counts as subscribed by the channel of the first name alone: the others' confirmations and
// losses change nothing.
func TestQueueCountsTheSubscriptionsOfTheFirstName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := bubble.Nodes(t, bubble.Masters(t, 3), nil, node.WithoutQuarantine())
		e := engine.New(engine.Config{Nodes: nodes, Need: 2, Clock: bubble.Clock(t), UUID: "test", Founds: true})
		t.Cleanup(func() { e.Close(); <-e.Idle() })
		held := errors.New("held")
		list := NewList(Config{Engine: e, History: new(waiting.History), HeldError: func() error { return held },
			NewRand: func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }})
		w, _ := list.Join(Call{Key: NewKey([]string{"a", "b"}, false), Retry: waiting.Retry{Min: time.Minute, Max: time.Minute}}, e.Moment())
		defer w.Leave()
		attempt := func() {
			t.Helper()
			if _, due := w.Begin(e.Moment()); !due {
				t.Fatal("no attempt is due")
			}
			w.Refused(waiting.Result{Held: true, Wait: -1}, waiting.AskAll, held)
		}
		attempt()
		due := func() clock.Instant {
			list.mu.Lock()
			defer list.mu.Unlock()
			_, at, _ := w.queue.Next()
			return at
		}
		onAll := func(firstName bool, event func(*subscriber)) (moved bool) {
			before := due()
			for i := range nodes {
				event(&subscriber{queue: w.queue, node: i, firstName: firstName})
			}
			return due() != before
		}
		if onAll(false, (*subscriber).OnSubscribed) {
			t.Error("another name's subscriptions count as the nodes'")
		}
		if !onAll(true, (*subscriber).OnSubscribed) {
			t.Error("the first name's subscriptions do not count as the nodes'")
		}
		attempt()               // asks the probe node
		time.Sleep(time.Second) // some steps
		attempt()               // asks all nodes, and then comes a poll
		if onAll(false, (*subscriber).OnUnsubscribed) {
			t.Error("the loss of another name's subscriptions counts as the nodes'")
		}
		if !onAll(true, (*subscriber).OnUnsubscribed) {
			t.Error("the loss of the first name's subscriptions does not count as the nodes'")
		}
	})
}
