package quorumtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// A test fails in which two names were taken in two orders, even if no call had to wait.
func TestTwoOrders(t *testing.T) {
	write := (*quorum.RWLock).Lock
	wrong := `quorumtest: a flow that held "y" waited for "x", and one that held "x" waited for "y": each may wait for the ` +
		`other for ever. Lock both names in one call, or always in one order`
	for _, test := range []struct {
		flows [][]string // the names of each, which it locks one within the other
		lock  func(*quorum.RWLock, context.Context) (*quorum.Lock, error)
		opts  []quorum.Option
		loses bool // each lock, before it takes the next
		said  string
	}{
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: write, said: wrong},
		{flows: [][]string{{"x", "y"}, {"x", "y"}, {"y"}, {"x"}}, lock: write},
		{flows: [][]string{{"z", "x", "y"}, {"z", "y", "x"}}, lock: write}, // z lets one of them in
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: (*quorum.RWLock).RLock},
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: write, opts: []quorum.Option{quorum.WithWait(time.Minute)}},
		{flows: [][]string{{"x", "y"}, {"y", "x"}}, lock: write, loses: true},
	} {
		f := &testkit.Recorder{TB: t}
		masters := quorumtest.Start(f, 3)
		for _, names := range test.flows {
			locker, ctx := masters.Locker(test.opts...), t.Context()
			for i, name := range names {
				lock := testkit.Got(test.lock(locker.RWLock(name), ctx))(t)
				ctx = context.WithoutCancel(lock.Context())
				if test.loses || i == len(names)-1 {
					masters.FastForward(quorum.DefaultLease)
				}
			}
		}
		f.End()
		said := fmt.Sprint(f.Said)
		testkit.Check(t, said == "["+test.said+"]", "%q: it said %s, want %s", test.flows, said, test.said)
	}
}
