package quorum

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

func TestIdentity(t *testing.T) {
	host, _ := os.Hostname()
	inCluster(t, func(t *testing.T, c *cluster) {
		want := Identity{Host: host, PID: os.Getpid(), Program: filepath.Base(os.Args[0]), Label: "nightly"}
		testkit.Equal(t, c.process(WithLabel("nightly")).Identity(), want, "it is")
	})
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = nil // of a library in a program of another language
	testkit.Equal(t, thisProcess(""), Identity{Host: host, PID: os.Getpid()}, "without arguments it is")
	for said, is := range map[string]Identity{
		"unknown":                                 {},
		"api-7 (pid 4711)":                        {Host: "api-7", PID: 4711, Program: "worker"},
		"nightly on api-7 (pid 4711)":             {Host: "api-7", PID: 4711, Label: "nightly"},
		"worker on api-7 (pid 4711)":              {Host: "api-7", PID: 4711, Program: "worker", Label: "worker"},
		"python3 on api-7 (quorumlock, pid 4711)": {Host: "api-7", PID: 4711, Program: "quorumlock", Label: "python3"}, // it is run's
		strings.Repeat("x", 64) + " on " + strings.Repeat("y", 64) + " (pid 1)": {Host: strings.Repeat("y", 255), PID: 1,
			Label: strings.Repeat("x", 255)},
	} {
		testkit.Check(t, is.String() == said, "%+v is %q, want %q", is, is, said)
	}
}

func TestLabelIsPrintable(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for _, label := range []string{"a\nb", "\x1b[2J", "\xff", strings.Repeat("x", scripts.MaxLabel+1)} {
			wantError(t, errorOf(New(l.engine.Nodes, Majority, WithLabel(label))), ErrInvalid, of{label})
		}
		// a label for a Locker that exists
		wantError(t, errorOf(l.With(WithLabel("later")).TryLock(t.Context(), "a")), ErrInvalid)
		wantError(t, errorOf(New(l.engine.Nodes, Majority, WithNodeOptions())), ErrInvalid)
		wantError(t, errorOf(l.With(withClock(c.Clock)).TryLock(t.Context(), "a")), ErrInvalid)
	})
}

// A Locker writes one key per master, however many locks it holds, every 15 s while it holds any. The
// key outlives the last lease.
func TestIntroduction(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		key := "quorumlock:locker:" + l.ID()
		wantIntroductions := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			testkit.Equal(t, c.Ran("introduce"), want, when)
		}
		wantIntroductions("before the first lock", 0)
		var locks []*Lock
		for i := range 100 {
			locks = append(locks, c.lockKnown(l, fmt.Sprint("name", i)))
		}
		wantIntroductions("100 locks", 3)
		for _, m := range c.Masters {
			testkit.Check(t, slices.Contains(m.Keys(), key), "no %s in %q", key, m.Keys())
		}
		for _, n := range l.engine.Nodes {
			found, _ := inside.Of(n).Pipe("").Do(t.Context(), operators.Lockers("0")).Reply.Other.(*operators.LockersReply)
			testkit.Check(t, found != nil && len(found.Found) == 1 && found.Found[0].HasList(l.engine.Roster.List()),
				"the locker does not say its list: %+v", found)
		}
		c.Masters[0].Flush()         // the others keep the locks
		time.Sleep(61 * time.Second) // renewals come every 10 s
		wantIntroductions("after a minute", 3+3*3)
		for _, lock := range locks {
			lock.Unlock(t.Context())
		}
		time.Sleep(time.Minute)
		wantIntroductions("a minute without locks", 3+3*3)
		held := c.lockKnown(l, "a")
		l.Close() // as if the process had died: the lock stays
		time.Sleep(29 * time.Second)
		state, err := inspect(t.Context(), c.process(), "a")
		testkit.Check(t, err == nil && state.Owner == held.Owner() && state.Identity == l.Identity(),
			"a lock that nobody renews now: %+v, %v", state, err)
		testkit.Check(t, slices.Contains(c.Masters[0].Keys(), key),
			"a master that was flushed does not get the identity again")
		time.Sleep(time.Minute)
		for _, m := range c.Masters {
			testkit.Check(t, !slices.Contains(m.Keys(), key), "%s is left for ever", key)
		}
	})
}

// lockKnown is lock, and returns when all masters have the lock, and know the process.
func (c *cluster) lockKnown(l *Locker, names ...string) *Lock {
	c.t.Helper()
	lock := c.lock(l, names...)
	synctest.Wait()
	return lock
}

// Waiters that meet one holder after another do not ask about each.
func TestWaitersAskSeldom(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, results := c.process(), make(chan lockResult, 1)
		held := c.lock(c.process(), "a")
		startWaiter(t.Context(), l, 0, results, "a")
		for range 20 {
			next := c.process() // nobody knows it
			c.unlock(held)
			held = c.nextLock(results, shortly)
			c.unlock(held)
			held = c.lock(next, "a")
			startWaiter(t.Context(), l, 0, results, "a")
			time.Sleep(50 * time.Millisecond)
		}
		n := c.Ran("who", "inspect")
		testkit.Check(t, n >= 1 && n <= 3, "%d questions about 20 holders within a second", n)
		c.unlock(held)
		c.unlock(c.nextLock(results, shortly))
	})
}
