package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/bubble"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/scripts"
)

// quarantined makes the nodes of the cluster's processes keep quarantines from now on.
func (c *cluster) quarantined() time.Duration {
	c.quarantines = true
	return node.DefaultMaxLease
}

// lets has a Locker try a name until it gets it, and returns after how long. It wants every refusal before
// to be for the quarantine.
func (c *cluster) lets(l *Locker, name string) time.Duration {
	c.t.Helper()
	began := time.Now()
	for {
		lock, err := l.TryLock(c.t.Context(), name)
		if err == nil {
			c.unlock(lock)
			return time.Since(began)
		}
		require(c.t, errors.Is(err, ErrQuarantined), "after %v: %v", time.Since(began), err)
		time.Sleep(100 * time.Millisecond)
	}
}

// A new deployment waits one max lease from the first client's marks on, and a client that comes later no
// longer.
func TestANewDeploymentWaitsOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		quarantine := c.quarantined()
		l := c.process()
		time.Sleep(quarantine / 2)
		second := c.process()
		if took := c.lets(second, "a"); took < quarantine/2-100*time.Millisecond || took > quarantine/2+100*time.Millisecond {
			t.Errorf("the second client waits %v", took)
		}
		testkit.Equal(t, c.lets(l, "a"), 0, "the first client waits for another")
	})
}

// A client with WithoutFounding founds no deployment: it waits for the operator, and masters that
// have a list accept it.
func TestAnExistingDeploymentIsNotFounded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithoutFounding())
		wantError(t, errorOf(l.TryLock(t.Context(), "a")), ErrUnavailable, "quorumlock admit -members") // new masters
		for i, m := range c.masters {
			keys := m.Keys()
			testkit.Check(t, len(keys) == 0, "master %d has %q", i, keys)
		}
		c.unlock(c.lock(c.process(), "a")) // founds it
		c.unlock(c.lock(l, "a"))
		c.masters[0].Flush()
		c.unlock(c.lock(l, "a"))
		synctest.Wait()
		if keys := c.masters[0].Keys(); !slices.Contains(keys, scripts.MarkerKey) {
			t.Errorf("the first master is not marked: %q", keys)
		}
		flush(c.masters[:2]...) // a majority, while the third has the list
		// a majority without its data
		wantError(t, errorOf(l.TryLock(t.Context(), "a")), ErrUnavailable, "without WithoutFounding")
		c.unlock(c.lock(c.process(), "a")) // the way that the error names
		c.unlock(c.lock(l, "a"))
	})
}

func TestWithoutQuarantineANewDeploymentGrantsAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for range 2 {
			testkit.Equal(t, c.lets(l, "a"), 0, "it waits")
			flush(c.masters...)
		}
	})
}

// A master that forgot under a live connection, or with its process, is marked by the first call that
// finds it, and grants nothing before its quarantine is over: two such masters stop a lock for that long.
func TestMastersThatForgotWaitInQuarantine(t *testing.T) {
	for what, forget := range map[string]func(m *fakeredis.Master){
		"flushed":                 (*fakeredis.Master).Flush,
		"restarted":               func(m *fakeredis.Master) { restart(fakeredis.Nothing, m) },
		"restarted with its data": func(m *fakeredis.Master) { restart(fakeredis.Everything, m) },
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			quarantine := c.quarantined()
			l := c.process()
			c.lets(l, "a")

			forget(c.masters[0]) // two others are a quorum, and mark it
			time.Sleep(time.Second)
			for range 5 { // an answer that comes after the release marks nothing
				testkit.Equal(t, c.lets(l, "a"), 0, "one that forgot delays a lock by")
				synctest.Wait()
			}
			time.Sleep(quarantine / 2)
			forget(c.masters[1])
			time.Sleep(time.Second)
			began := time.Now()
			_, err := l.TryLock(t.Context(), "a")
			var refusal *Error
			require(t, errors.As(err, &refusal) && errors.Is(err, ErrQuarantined) && refusal.Quarantined == 2,
				"with two in quarantine: %v", err)
			c.lets(l, "a")
			wantTook(t, began, quarantine/2-2*time.Second, quarantine/2+time.Second)
		})
	}
}

// Masters restart under a held lock, with all their data. A majority that has not marks the others, and the lock is
// kept. So it is on the only master of a list. Otherwise they are claimed, and a claim accepts nobody, not even for renewals: the lock is lost at its
// deadline, although its keys came back, and the next holder waits for the claims' quarantine.
func TestALockWhoseMastersRestartWithTheirData(t *testing.T) {
	for _, p := range []struct {
		masters, restarted int
		isKept             bool
	}{{1, 1, true}, {3, 1, true}, {3, 2, false}, {3, 3, false}} {
		runInCluster(t, fmt.Sprintf("%d of %d", p.restarted, p.masters), func(t *testing.T, c *cluster) {
			quarantine := c.quarantined()
			c.masters = c.masters[:p.masters]
			held := c.lock(c.process(), "a")
			next := c.process()
			time.Sleep(DefaultLease) // some renewals

			began := time.Now()
			restart(fakeredis.Everything, c.masters[:p.restarted]...)
			time.Sleep(DefaultLease / 2) // a renewal has reached them
			keys := c.masters[0].Keys()
			testkit.Check(t, held.Valid() && slices.Contains(keys, "a"), "valid %v, keys %q", held.Valid(), keys)
			if p.isKept {
				time.Sleep(2 * quarantine)
				testkit.Check(t, held.Valid(), "lost: %v", context.Cause(held.Context()))
				c.unlock(held)
				return
			}
			<-held.Context().Done()
			if left := time.Until(held.Deadline()); left > 0 || !errors.Is(context.Cause(held.Context()), ErrLost) {
				t.Errorf("%v before its deadline: %v", left, context.Cause(held.Context()))
			}
			wantTook(t, began, 0, quarantine+DefaultLease/3+time.Second)
			if token := c.lock(next, "a").Token(); time.Since(began) < quarantine || token <= held.Token() {
				t.Errorf("after %v token %d, before %d", time.Since(began), token, held.Token())
			}
		})
	}
}

// A node whose answer comes when the outcome is certain counts by its answer.
func TestAllInQuarantineAreCounted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.quarantined()
		l := c.process()
		for range 2 { // to be marked, and accepted
			l.TryLock(t.Context(), "a")
		}
		c.before(2, func() { time.Sleep(engine.Grace / 4) })
		_, err := l.TryLock(t.Context(), "a")
		var refusal *Error
		testkit.Check(t, errors.As(err, &refusal) && refusal.Quarantined == 3 && refusal.Unknown == 0,
			"three in quarantine, one of them slow: %v", err)
		c.before(2, func() {})

		other := c.process()
		c.lets(l, "a") // so that they accept it
		c.masters[0].Flush()
		c.unlock(c.lock(l, "a"))
		c.lock(l, "a")
		synctest.Wait()
		for slow := range c.masters {
			c.before(slow, func() { time.Sleep(engine.Grace / 4) })
			_, err := other.TryLock(t.Context(), "a")
			testkit.Check(t, errors.As(err, &refusal) && refusal.Quarantined == 1 && refusal.Refused == 2 && refusal.Unknown == 0,
				"the first in quarantine, the others refuse, and %d is slow: %v", slow, err)
			c.before(slow, func() {})
		}
	})
}

// The marker of a master is gone again each time that it was marked: the attempt counts the master as
// failed, and sends it no more than two requests for a grant.
func TestAMarkerThatChangesEachTime(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		last, acquires := c.masters[2], 0
		flushing := false
		trace := last.Trace
		last.Trace = func(client, script string, args []string, reply any, err error) {
			trace(client, script, args, reply, err)
			if !flushing {
				return
			}
			switch script {
			case "acquire":
				acquires++
			case "mark": // its data goes before the next request arrives
				arrives := c.jam()
				go func() {
					last.Flush() // once the script is over
					arrives()
				}()
			}
		}
		l := c.process()
		flushing = true
		last.Flush()
		c.command(0, "HSET", "a", "another:1", "1")
		c.command(0, "PEXPIRE", "a", "60000")
		_, err := l.TryLock(t.Context(), "a") // it needs this master's grant
		synctest.Wait()
		testkit.Equal(t, acquires, 2*int(l.Stats().Attempts["held"]), "requests for a grant")
		wantError(t, err, engine.ErrMarker)
		flushing = false
	})
}

// A locker of another max lease is refused by live connections, too, and for good: no retry helps.
func TestAnotherMaxLeaseUnderALiveConnection(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.unlock(c.lock(l, "a"))
		for i, m := range c.masters {
			marker := scripts.Marker{Generation: 1, Members: l.core.Roster.List(), Next: scripts.NewList()}
			marker.Run, marker.Member = identify(t, l, i), l.core.Nodes[i].Name()
			marker.MaxLease = time.Hour
			m.Set(scripts.MarkerKey, marker.String())
		}
		_, err := l.Lock(t.Context(), "a") // returns at once
		var typed *node.Error
		testkit.Check(t, errors.Is(err, node.ErrMaxLease) && errors.As(err, &typed) && typed.Permanent(),
			"%v, want node.ErrMaxLease, for good", err)
	})
}

func identify(t *testing.T, l *Locker, i int) string {
	t.Helper()
	id, err := inside.Of(l.core.Nodes[i]).Identify(t.Context())
	testkit.Must(t, err)
	return id
}

// removesLast makes the masters say that the last of them is being removed. It leaves two masters: an
// even number.
func (c *cluster) removesLast() {
	c.mark(func(m *scripts.Marker, two *scripts.List) { m.Next = two })
	c.masters = c.masters[:2]
}

// mark changes the markers of all masters; two is the list of the first two.
func (c *cluster) mark(change func(m *scripts.Marker, two *scripts.List)) {
	l := c.process()
	two := scripts.NewList(l.core.Nodes[0].Name(), l.core.Nodes[1].Name())
	for i, m := range c.masters {
		marker := membership.Read(*c.ask(l, i, scripts.Look()).Look, 0).Marker()
		marker.Generation, marker.Claimed, marker.Admitted = marker.Generation+1, false, 0
		change(&marker, two)
		m.Set(scripts.MarkerKey, marker.String())
	}
	l.Close()
}

// Masters that accept a Locker over an even list may all forget while the change is under way. The
// Locker then marks them again.
func TestAnEvenListFoundsAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.removesLast()
		l := c.process()
		c.lets(l, "a")
		time.Sleep(node.DefaultMaxLease) // what the look said is old
		flush(c.masters...)
		c.lets(l, "a")
	})
}

// All masters of an even list restart with their data: a Locker that is made then has them mark each
// other again, and waits for their quarantine.
func TestAnEvenListThatRestartsIsOpened(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		quarantine := c.quarantined()
		c.mark(func(m *scripts.Marker, two *scripts.List) { m.Members = two })
		c.masters = c.masters[:2]
		restart(fakeredis.Everything, c.masters...)
		first := c.process()
		time.Sleep(quarantine / 2)
		if took := c.lets(c.process(), "a"); took < quarantine/2-100*time.Millisecond || took > quarantine/2+100*time.Millisecond {
			t.Errorf("it waits %v", took)
		}
		c.lets(first, "a")
	})
}

// All masters restart with their data between announce and commit: a client of the new list is told
// whose clients mark them, and then locks.
func TestAMasterThatRestartsInTheMidstOfAChangeSaysWhoMarksIt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.quarantined()
		all := c.masters
		c.removesLast()
		c.masters = all
		restart(fakeredis.Everything, c.masters...)
		c.masters = all[:2]
		_, err := c.process().TryLock(t.Context(), "a")
		const want = "waits for a client with {master0, master1, master2}: lock any name with that list"
		require(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
		c.masters = all
		c.lets(c.process(), "a")
	})
}

// Two replicas start at the same time on new masters: one marks what the other has looked at. Each node's log and
// state, and Stats, say that it grants nothing as long as that is so, and that it grants from then on.
func TestAFirstStartOfTwoReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		log.setDefault(t)
		masters, all := bubble.Masters(t, 3), make([]*Locker, 2)
		var starting sync.WaitGroup
		for i := range all {
			nodes := bubble.Nodes(t, masters, nil)
			starting.Go(func() { all[i], _ = New(nodes, Majority, withClock(bubble.Clock(t))) })
		}
		starting.Wait()
		for _, l := range all {
			defer l.Close()
		}
		says := func(when, state string, began, ended int) {
			t.Helper()
			synctest.Wait()
			for _, l := range all {
				for _, n := range l.Stats().Nodes {
					testkit.Check(t, n.State == state, "%s: node %s is %s", when, n.Name, n.State)
				}
			}
			if n, over := log.count("level=WARN msg=\"quorumlock: node in quarantine"), log.count("its quarantine is over"); n != began || over != ended {
				t.Errorf("%s: %d lines that quarantines began, %d that they are over", when, n, over)
			}
		}
		says("at first", inside.Quarantined, 6, 0)
		time.Sleep(node.DefaultMaxLease - time.Second)
		says("at last", inside.Quarantined, 6, 0)
		time.Sleep(time.Second)
		says("then", inside.Up, 6, 6)
		lock, err := all[0].TryLock(t.Context(), "a")
		testkit.Check(t, err == nil && lock.Unlock(t.Context()) == nil, "%v", err)
	})
}
