package holders_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/bubble"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/scripts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inDeployment runs a test over one master in a bubble, which counts the runs of scripts by name.
func inDeployment(t *testing.T, test func(t *testing.T, nodes []*node.Node, runs func(script string) int64)) {
	synctest.Test(t, func(t *testing.T) {
		masters := bubble.Masters(t, 1)
		counts := map[string]*atomic.Int64{"introduce": {}, "who": {}}
		masters[0].Trace = func(_, script string, _ []string, _ any, _ error) {
			if count := counts[script]; count != nil {
				count.Add(1)
			}
		}
		test(t, bubble.Nodes(t, masters, nil), func(script string) int64 {
			synctest.Wait()
			return counts[script].Load()
		})
	})
}

// A locker introduces itself when it is due, and is asked about once.
func TestAHolderIsAskedAboutOnce(t *testing.T) {
	inDeployment(t, func(t *testing.T, nodes []*node.Node, runs func(string) int64) {
		ticking := bubble.Clock(t)
		is := scripts.Identity{Host: "somewhere", PID: 7}
		in := holders.NewIntroduction(nodes, "other", is, func() *scripts.List { return nil }, time.Minute)
		in.Keep(ticking.Now())
		in.Keep(ticking.Now())
		if n := runs("introduce"); n != 1 {
			t.Errorf("%d introductions at once", n)
		}
		hs := holders.New(nodes, "self", scripts.Identity{Host: "here"}, ticking)
		of := holders.Named{Owner: "other:1", Name: "a"}
		if got := hs.Recall(of); got != (scripts.Identity{}) {
			t.Errorf("before it is asked about: %v", got)
		}
		for range 3 {
			if got := hs.Describe(t.Context(), of); got != is {
				t.Errorf("asked about: %v", got)
			}
		}
		if got := hs.Recall(holders.Named{Owner: "other:2"}); got != is {
			t.Errorf("another owner of the locker: %v", got)
		}
		if n := runs("who"); n != 1 {
			t.Errorf("%d questions", n)
		}
		time.Sleep(scripts.IntroduceEvery)
		in.Keep(ticking.Now())
		if n := runs("introduce"); n != 2 {
			t.Errorf("%d introductions after a while", n)
		}
	})
}

// A call that waits asks once a second at most, and does not wait for the answer. An identity that
// no node knows is asked for again after a second.
func TestInquireAsksSeldom(t *testing.T) {
	inDeployment(t, func(t *testing.T, nodes []*node.Node, runs func(string) int64) {
		ticking := bubble.Clock(t)
		hs := holders.New(nodes, "self", scripts.Identity{}, ticking)
		for range 3 {
			hs.Inquire(holders.Named{Owner: "a:1", Name: "a"})
			hs.Inquire(holders.Named{Owner: "b:1", Name: "a"})
		}
		if n := runs("who"); n != 1 {
			t.Errorf("%d questions within a second", n)
		}
		time.Sleep(time.Second)
		hs.Inquire(holders.Named{Owner: "a:1", Name: "a"})
		if n := runs("who"); n != 2 {
			t.Errorf("%d questions after a second", n)
		}
	})
}

// The locker's own identity needs no question, nor does one that is known.
func TestIdentities(t *testing.T) {
	inDeployment(t, func(t *testing.T, nodes []*node.Node, _ func(string) int64) {
		self, other := scripts.Identity{Host: "here"}, scripts.Identity{Host: "somewhere"}
		hs := holders.New(nodes, "self", self, bubble.Clock(t))
		for _, asks := range []int{1, 0} {
			asked := 0
			got := hs.Identities([]string{"self", "other"}, func(lockers []string) map[string]scripts.Identity {
				asked += len(lockers)
				return map[string]scripts.Identity{"other": other}
			})
			if asked != asks || len(got) != 2 || got["self"] != self || got["other"] != other {
				t.Errorf("%d lockers asked about, want %d: %v", asked, asks, got)
			}
		}
	})
}
