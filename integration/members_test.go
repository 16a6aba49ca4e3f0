package integration_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// A client whose list is not that of the masters is told so, with both lists, and does not wait.
func TestMembersWrongListIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	const maxLease = 10 * time.Second
	r := rosterOf(t, "a", "b", "c", "d", "e")
	r.giveAll(t, maxLease, "a", "b", "c")
	for _, c := range []struct {
		how   string
		by    opener
		names []string
	}{
		{"redlock", redlock.Open, []string{"a", "b", "d"}},
		{"redlock", redlock.Open, []string{"a", "b", "c", "d", "e"}},
		{"redlock, one master in common", redlock.Open, []string{"c", "d", "e"}},
		{"multilock", multilock.Open, []string{"a", "b"}},
		{"multilock", multilock.Open, []string{"a", "b", "d"}},
		{"multilock", multilock.Open, []string{"a", "b", "c", "d"}},
		{"multilock, one master in common", multilock.Open, []string{"c", "d", "e"}},
	} {
		t.Run(c.how+" "+strings.Join(c.names, ""), func(t *testing.T) {
			t.Parallel()
			l, err := listOpen(t, c.by, maxLease, r.of(c.names...))
			must(t, err)
			took(t, "Lock", soon/4, func() { err = notHeld(l.Lock(short(t), "job")) })
			wantErr(t, err, quorum.ErrNotAcquired, quorum.ErrMembership)
			for _, list := range []*scripts.List{scripts.NewList("a", "b", "c"), scripts.NewList(c.names...)} {
				if !strings.Contains(fmt.Sprint(err), list.String()) {
					t.Errorf("the error does not have the list %s: %v", list, err)
				}
			}
		})
	}
	t.Run("the list itself, by both rules", func(t *testing.T) {
		t.Parallel()
		isAccepted(t, multilock.Open, maxLease, r.of("c", "b", "a"))
		isAccepted(t, redlock.Open, maxLease, r.of("b", "a", "c"))
	})
}

// Two clients with different lists meet new masters at one time. At most one of them may found its
// deployment.
func TestMembersTwoFoundersNeverBothHold(t *testing.T) {
	t.Parallel()
	for _, lists := range [][2][]string{
		{{"a", "b", "c"}, {"a", "b", "d"}},
		{{"a", "b", "c"}, {"c", "d", "e"}},
		{{"a", "b", "c"}, {"a", "b", "c", "d", "e"}},
	} {
		t.Run(fmt.Sprint(lists), func(t *testing.T) {
			t.Parallel()
			const rounds, maxLease = 40, 2 * time.Second
			r := rosterOf(t, "a", "b", "c", "d", "e")
			won, none := [2]int{}, 0
			for range rounds {
				for _, m := range r.masters {
					do(t, m, "FLUSHALL")
				}
				var holds [2]*quorum.Lock
				var errs [2]error
				var both sync.WaitGroup
				for i, names := range lists {
					both.Go(func() {
						pass(t, time.Duration(rand.IntN(3000))*time.Microsecond)
						var l *quorum.Locker
						l, errs[i] = redlock.Open(r.of(names...), quorum.WithNodeOptions(
							node.WithTimeout(soon), node.WithMaxLease(maxLease), node.WithoutQuarantine()))
						if errs[i] != nil {
							return
						}
						t.Cleanup(func() { must(t, l.Close()) })
						holds[i], errs[i] = l.TryLock(t.Context(), "job")
						if errs[i] != nil { // the other may have been in the midst of it
							holds[i], errs[i] = l.TryLock(t.Context(), "job")
						}
					})
				}
				both.Wait()
				switch {
				case holds[0] != nil && holds[1] != nil:
					t.Fatalf("both hold:%s", r.markers(t))
				case holds[0] == nil && holds[1] == nil:
					none++
					t.Logf("neither is accepted: %v\n%v%s", errs[0], errs[1], r.markers(t))
				}
				for i, held := range holds {
					if held != nil {
						won[i]++
						unlock(t, held)
					} else if !errors.Is(errs[i], quorum.ErrMembership) {
						t.Errorf("client %d: not %q, but: %v", i, quorum.ErrMembership, errs[i])
					}
				}
			}
			t.Logf("of %d rounds, %d went to the first list, %d to the second, %d to none", rounds, won[0], won[1], none)
			if none > 0 {
				t.Errorf("in %d rounds neither client was accepted", none)
			}
		})
	}
}
