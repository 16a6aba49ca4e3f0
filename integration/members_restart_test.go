package integration_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	admin "github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
)

// forgetLease is the max lease of the deployments whose masters forget their list: a restart takes
// less than half of it.
const forgetLease = 3 * time.Second

// A member's name moves to a process that was never a member. One client still reaches the old process: by an address
// that it has looked up before, or over a connection that lives on. Its holder renews there, while the new process waits in
// quarantine and then grants the lock to another: two hold. If the old process is stopped first, as docs/operations.md says,
// its holder is lost before that.
func TestMembersNameThatMovesWhileTheOldProcessLives(t *testing.T) {
	t.Parallel()
	for how, test := range map[string]struct {
		stopped bool
		two     bool
	}{"the old process lives on": {false, true}, "the old process is stopped first": {true, false}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			masters := fleet(t, 4).Masters
			a, b, next, c := masters[0].URL()+"?name=a", masters[1].URL()+"?name=b", masters[2].URL()+"?name=b", masters[3].URL()+"?name=c"
			for _, url := range []string{a, b, c} {
				must(t, admin.AdmitMembers(t.Context(), openNode(t, url, node.WithMaxLease(forgetLease)), []string{"a", "b", "c"}))
			}
			cutOff := "redis://127.0.0.1:1?name=c" // the network between this client and c is down
			urls := addresses{a, b, cutOff}
			first := lock(t, careful(t, urls, redlock.Open, forgetLease, quorum.WithLease(forgetLease)), "held")

			if test.stopped {
				must(t, masters[1].Kill())
			}
			moved := addresses{a, next, c}
			other := careful(t, moved, redlock.Open, forgetLease, quorum.WithLease(forgetLease))
			began := time.Now()
			second := lock(t, other, "held")
			took := time.Since(began)
			testkit.Check(t, took >= forgetLease/2, "the new process granted after %v", took)
			if two := first.Valid() && second.Valid(); two != test.two {
				t.Errorf("after %v two hold: %v, want %v", time.Since(began), two, test.two)
			} else if two && second.Token() <= first.Token() {
				t.Errorf("token %d after %d", second.Token(), first.Token())
			}
			unlock(t, second)
			_ = first.Unlock(t.Context())
		})
	}
}
