package membership_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// A master gets a few of the calls that read and raise the token counters at a time, and none after one that failed: all
// at once they could take it longer than a node's timeout.
func TestCountersInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		defer func() { w.end() }()
		w.next([]string{"abc", "abc", "abc"})
		for number := range 9 * 1024 { // of nine calls
			w.masters["a"].Set(fmt.Sprint(scripts.CounterPrefix, number), "5")
		}
		by, doing := w.driver(), change.Action(0)
		by.Before = func(step change.Step) bool {
			doing = step.Do
			return true
		}
		made, call := map[change.Action]map[string]int{change.ReadTokens: {}, change.RaiseTokens: {}}, by.Call
		by.Call = func(ctx context.Context, calls map[string][]scripts.Call) map[string][]change.Reply {
			replies := call(ctx, calls)
			for name, of := range calls {
				testkit.Check(t, len(of) <= 8, "%d calls at once", len(of))
				if made[doing] == nil { // a look or a mark
					continue
				}
				if made[doing][name] += len(of); name == "c" && made[doing][name] == 24 {
					replies[name][0].Err = errors.New("no reply")
				}
			}
			return replies
		}
		to, err := change.New(listOf("abc"), listOf("ab"))
		testkit.Must(t, err)
		_, seen, err := by.Run(t.Context(), to.Announce())
		testkit.Must(t, err)
		testkit.Equal(t, fmt.Sprint(made[change.ReadTokens]), "map[a:64 b:64 c:24]", "calls that read")
		testkit.Equal(t, fmt.Sprint(made[change.RaiseTokens]), "map[a:0 b:9]", "calls that raise")
		testkit.Equal(t, fmt.Sprint(seen.Errs), "map[c:no reply]", "errors")
		for _, number := range []int{0, 7, 9*1024 - 1} {
			text, err := w.masters["b"].do("GET", fmt.Sprint(scripts.CounterPrefix, number))
			testkit.Check(t, err == nil && fmt.Sprintf("%s", text) == "5", "counter %d of b: %s, %v", number, text, err)
		}
	})
}
