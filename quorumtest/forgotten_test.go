package quorumtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const name = "invoice:42"

// shortDay is the day of these tests.
const shortDay = 10 * time.Minute

// watchADay watches the holders for a short day.
func (m *Masters) watchADay() {
	m.day = shortDay
	m.watchHolders()
}

// An Unlock that is forgotten would let time pass without end. The test fails after a day, and names the holder, and
// whoever waits for the lock gets it.
func TestBubbleForgottenUnlock(t *testing.T) {
	for what, forget := range map[string]func(*testing.T, *Masters) (held *quorum.Lock, holder string){
		"a lock": func(t *testing.T, masters *Masters) (*quorum.Lock, string) {
			masters.Locker()
			held := testkit.Got(masters.Locker().Lock(t.Context(), name))(t)
			return held, "locker 2 of Masters.Locker"
		},
		"a reader": func(t *testing.T, masters *Masters) (*quorum.Lock, string) {
			held := testkit.Got(masters.Locker().RWLock(name).RLock(t.Context()))(t)
			return held, "locker 1 of Masters.Locker"
		},
		"a locker of the service's": func(t *testing.T, masters *Masters) (*quorum.Lock, string) {
			service := testkit.Opened(redlock.Open(masters.URLs(), masters.Options()...))(t)
			held := testkit.Got(service.Lock(t.Context(), name))(t)
			return held, "a locker with Masters.Options"
		},
		"elsewhere": func(_ *testing.T, masters *Masters) (*quorum.Lock, string) {
			return masters.HoldElsewhere(name), "Masters.HoldElsewhere"
		},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			f := &testkit.Recorder{TB: t}
			defer f.End()
			masters := Start(f, 3)
			masters.watchADay()
			began := time.Now()
			held, holder := forget(t, masters)
			next := testkit.Got(masters.Locker().Lock(t.Context(), name))(t)
			waited := time.Since(began)
			testkit.Check(t, waited >= shortDay && waited < shortDay+2*time.Minute, "the next has the lock after %v", waited)
			want := fmt.Sprintf("quorumtest: %q is held for 10m0s of the bubble's time, by %s (owner %s): is an Unlock forgotten?",
				name, holder, held.Owner())
			testkit.Check(t, slices.Equal(f.Said, []string{want}), "it said %q, want %q", f.Said, want)
			testkit.Is(t, held.Err(), quorum.ErrLost, "the forgotten lock")
			testkit.Must(t, next.Unlock(t.Context()))
		})
	}
}

// Holders that change, and days in which nothing is held, are no failure.
func TestBubbleDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := Start(t, 3)
		testkit.Equal(t, masters.day, 24*time.Hour, "a day")
		masters.watchADay()
		for range 4 {
			lock := mustLock(t, masters.Locker(), name)
			time.Sleep(shortDay * 3 / 4)
			testkit.Must(t, lock.Unlock(t.Context()))
		}
		time.Sleep(2 * 24 * time.Hour)
	})
}

// A test that goes on for another day is ended: its failure would not be seen.
func TestBubbleForgottenTwice(t *testing.T) {
	if os.Getenv("QUORUMTEST_FORGETS") == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBubbleForgottenTwice$")
		child.Env = append(os.Environ(), "QUORUMTEST_FORGETS=1")
		output, err := child.CombinedOutput()
		testkit.Check(t, err != nil && bytes.Contains(output, []byte("panic: quorumtest: TestBubbleForgottenTwice: ")) &&
			bytes.Contains(output, []byte(`"a" is held for 10m0s of the bubble's time, by locker 1 of Masters.Locker`)),
			"%v\n%s", err, output)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		masters := Start(t, 3)
		masters.watchADay()
		for locker := masters.Locker(); ; {
			locker.Lock(t.Context(), "a")
		}
	})
}

// printing is a test whose output is kept.
type printing struct {
	testing.TB
	all child.Printed
}

func (p *printing) Output() io.Writer { return &p.all }

// What lockers log belongs to the test: a test that passes is silent.
func TestLockersLogToTheTest(t *testing.T) {
	tb := &printing{TB: t}
	m := Start(tb, 3)
	locker := m.Locker()
	m.Stop(0)
	m.Stop(1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- testkit.ErrorOf(locker.Lock(ctx, "a")) }()
	for _, line := range []string{"quorumlock: node down", "quorumlock: waiting for nodes"} {
		testkit.Check(t, poll.Until(patience, func() bool { return strings.Contains(tb.all.String(), line) }), "no %q in the test's output", line)
	}
	cancel()
	testkit.Check(t, <-ended != nil, "it locks without a majority")
}
