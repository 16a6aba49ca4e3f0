package quorum

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// wantNotReady checks which errors Ready wraps: these, and of the others none.
func wantNotReady(t *testing.T, err error, wants ...error) {
	t.Helper()
	for _, reason := range []error{ErrMembership, ErrQuarantined, ErrUnavailable, ErrPermanent, ErrInvalid, ErrClosed} {
		want := false
		for _, w := range wants {
			want = want || w == reason
		}
		testkit.Check(t, errors.Is(err, reason) == want, "wraps %q: %v, want %v: %v", reason, !want, want, err)
	}
	testkit.Check(t, strings.HasPrefix(err.Error(), "quorumlock: not ready: "), "it says %q", err)
}

// A list of masters that is refused is known from the start: Ready says so, the log and Stats do, and
// so does package operator.
func TestARefusedListIsKnownFromTheStart(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var log logLines
		log.setDefault(t)
		c.lock(c.process(), "a")
		l := c.over(func(int) {}, 0, 1, errors.New("no route"))
		synctest.Wait()
		testkit.Equal(t, log.count("node does not accept this client"), 2, "lines about masters that do not accept it")
		stats := l.Stats()
		testkit.Check(t, stats.Voters == 0 && stats.Nodes[0].State == inside.NotAccepted && stats.Nodes[1].State == inside.NotAccepted, "%+v", stats)
		wantNotReady(t, l.Ready(t.Context()), ErrUnavailable, ErrMembership, ErrPermanent)
		state, err := inspect(t.Context(), l, "a")
		testkit.Check(t, errors.Is(err, ErrMembership) && errors.Is(state.Errs[0], ErrMembership) && state.Owner == "",
			"%+v, %v", state, err)
		_, err = l.TryLock(t.Context(), "a")
		for _, list := range []string{"{master0, master1, master2}", `{master0, master1, "other 2"}`} {
			text := fmt.Sprint(err)
			testkit.Check(t, strings.Contains(text, list), "it lacks %s: %s", list, text)
		}
		wrong := redis.Error("WRONGPASS invalid username-password pair")
		wantNotReady(t, c.over(func(int) {}, wrong, wrong, 0).Ready(t.Context()), ErrUnavailable, ErrMembership, ErrPermanent)
	})
}

// So are masters that are being marked for another list: the log says so, though they are blank to this one.
func TestAClaimForAnotherListIsLogged(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var log logLines
		log.setDefault(t)
		_, err := c.locker(c.NewProcess().Nodes()).TryLock(t.Context(), "a")
		testkit.Check(t, errors.Is(err, ErrQuarantined), "the masters are claimed: %v", err)
		l := c.over(func(int) {}, 0, 1, errors.New("no route"))
		synctest.Wait()
		testkit.Equal(t, log.count("node does not accept this client"), 2, "lines about masters that are claimed for another list")
		wantNotReady(t, l.Ready(t.Context()), ErrUnavailable, ErrMembership, ErrPermanent)
	})
}
