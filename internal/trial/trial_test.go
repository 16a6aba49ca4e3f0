package trial_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/trial"
	"github.com/quorumlock/quorumlock/internal/trial/heard"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const lateness = 10 * time.Second

// A trial says that a master grants if the lock was renewed and released, and leaves none.
func TestTrials(t *testing.T) {
	failed := errors.New("meanwhile")
	name, owner := scripts.TrialName("a"), scripts.NewOwner("locker", 1)
	for what, c := range map[string]struct {
		before, meanwhile func(*fakeredis.Master) error
		outcome           scripts.Outcome
		says              string // the error; empty for none
	}{
		"granted":     {outcome: scripts.Granted},
		"interrupted": {meanwhile: func(*fakeredis.Master) error { return failed }, outcome: scripts.Granted, says: "meanwhile"},
		"deleted meanwhile": {meanwhile: func(m *fakeredis.Master) error {
			m.Free([]string{name.String()}, owner.String(), scripts.MarkerKey)
			return nil
		},
			outcome: scripts.Granted, says: "the lock that was just acquired is gone"},
		"held": {before: func(m *fakeredis.Master) error { m.Set(name.String(), "text"); return nil }, says: "WRONGTYPE"},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			w := world.New(t, 1)
			m, n := w.Masters[0], w.NewProcess().Nodes(node.WithConns(1))[0]
			testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}))
			if c.before != nil {
				testkit.Must(t, c.before(m))
			}
			meanwhile := func(scripts.AcquireArgs) error { return c.meanwhile(m) }
			if c.meanwhile == nil {
				meanwhile = nil
			}
			reply, err := trial.Lock(t.Context(), n, scripts.NewList(n.Name()), name, owner, meanwhile)
			testkit.Check(t, reply.Acquire.Outcome == c.outcome && (err == nil) == (c.says == "") && strings.Contains(fmt.Sprint(err), c.says), "%+v, %v", reply, err)
			testkit.Pass(time.Second)
			testkit.Equal(t, slices.Contains(m.Keys(), name.String()), c.before != nil, "a key is left")
		})
	}
}

// Two trials of one name at once, two monitors' perhaps, wait for each other. They do not wait for a lock, unless it ends soon.
func TestTwoTrialsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, name := world.New(t, 1), scripts.NewName("a")
		outcomes := make(chan scripts.Outcome, 2)
		try := func() {
			p := w.NewProcess()
			p.Far(0, 10*time.Millisecond)
			n := p.Nodes()[0]
			testkit.Check(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}) == nil, "not admitted")
			reply, unheard, err := heard.Lock(t.Context(), n, scripts.NewList(n.Name()), name)
			testkit.Check(t, err == nil && unheard == nil, "%v, %v", err, unheard)
			outcomes <- reply.Outcome
		}
		go try()
		go try()
		for range 2 {
			testkit.Equal(t, <-outcomes, scripts.Granted, "the outcome of a trial")
		}
		locker := testkit.Got(redlock.New(w.NewProcess().Nodes()))(t)
		defer locker.Close()
		testkit.Got(locker.TryLock(t.Context(), "a"))(t)
		begun := time.Now()
		try()
		testkit.Check(t, <-outcomes == scripts.HeldByAnother && time.Since(begun) < time.Second, "the trial took %v", time.Since(begun))
	})
}

// The second owner's request arrives once the first one's lock is gone: it is not granted.
func TestTheSecondOwnerIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, 1)
		p, named := w.NewProcess(), 0
		p.Sends = func(_ int, data []byte) (arrives bool) {
			if !bytes.Contains(data, []byte("quorumlock:released:")) {
				return true
			}
			if named++; named == 2 { // it comes late, on a connection that is closed meanwhile
				late := bytes.Clone(data)
				time.AfterFunc(lateness, func() {
					c, err := w.NewProcess().Dial(t.Context(), 0)
					testkit.Check(t, err == nil, "%v", err)
					_, _ = c.Write(late)
				})
			}
			return named != 2
		}
		n := p.Nodes(node.WithConns(1))[0]
		testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}))
		name := scripts.TrialName("late")
		contend := func(acquire scripts.AcquireArgs) error {
			return heard.Contend(t.Context(), n, acquire, scripts.NewOwner("locker", 2))
		}
		_, err := trial.Lock(t.Context(), n, scripts.NewList(n.Name()), name, scripts.NewOwner("locker", 1), contend)
		testkit.Require(t, err != nil, "the second owner was refused in time")
		for over := time.Now().Add(2 * lateness); time.Now().Before(over); time.Sleep(n.Timeout() / 10) {
			synctest.Wait()
			testkit.Require(t, !slices.Contains(w.Masters[0].Keys(), name.String()),
				"the second owner holds the name: %s", w.Masters[0].Keys())
		}
	})
}
