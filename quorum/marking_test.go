package quorum

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
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
		if !errors.Is(err, ErrQuarantined) {
			c.t.Fatalf("after %v: %v", time.Since(began), err)
		}
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
		if took := c.lets(l, "a"); took > 0 {
			t.Errorf("the first client waits for another %v", took)
		}
	})
}

// A client with WithExistingDeployment founds no deployment: it waits for the operator, and masters that
// have a list accept it.
func TestAnExistingDeploymentIsNotFounded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithExistingDeployment())
		_, err := l.TryLock(t.Context(), "a")
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "quorumlock admit -members") {
			t.Errorf("new masters: %v", err)
		}
		for i, m := range c.masters {
			if keys := m.Keys(); len(keys) > 0 {
				t.Errorf("master %d has %q", i, keys)
			}
		}
		c.unlock(c.lock(c.process(), "a")) // founds it
		c.unlock(c.lock(l, "a"))
		c.masters[0].Flush()
		c.unlock(c.lock(l, "a"))
		synctest.Wait()
		if keys := c.masters[0].Keys(); !slices.Contains(keys, scripts.MarkerKey) {
			t.Errorf("the first master is not marked: %q", keys)
		}
	})
}

func TestWithoutQuarantineANewDeploymentGrantsAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for range 2 {
			if took := c.lets(l, "a"); took > 0 {
				t.Errorf("it waits %v", took)
			}
			flush(c.masters...)
		}
	})
}

// A master that forgot under a live connection, or with its process, is marked by the first call that
// finds it, and grants nothing before its quarantine is over: two such masters stop a lock for that long.
func TestMastersThatForgotWaitInQuarantine(t *testing.T) {
	for what, forget := range map[string]func(m *fakeredis.Master){
		"flushed": (*fakeredis.Master).Flush,
		"restarted": func(m *fakeredis.Master) {
			m.Crash(fakeredis.Nothing)
			m.Start()
		},
		"restarted with its data": func(m *fakeredis.Master) {
			m.Crash(fakeredis.Everything)
			m.Start()
		},
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				quarantine := c.quarantined()
				l := c.process()
				c.lets(l, "a")

				forget(c.masters[0]) // two others are a quorum, and mark it
				time.Sleep(time.Second)
				for range 5 { // an answer that comes after the release marks nothing
					if took := c.lets(l, "a"); took > 0 {
						t.Errorf("one that forgot delays a lock by %v", took)
					}
					synctest.Wait()
				}
				time.Sleep(quarantine / 2)
				forget(c.masters[1])
				time.Sleep(time.Second)
				began := time.Now()
				_, err := l.TryLock(t.Context(), "a")
				var refusal *Error
				if !errors.As(err, &refusal) || !errors.Is(err, ErrQuarantined) || refusal.Quarantined != 2 {
					t.Fatalf("with two in quarantine: %v", err)
				}
				c.lets(l, "a")
				if took := time.Since(began); took < quarantine/2-2*time.Second || took > quarantine/2+time.Second {
					t.Errorf("the first of two that forgot grants after another %v", took)
				}
			})
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
		if !errors.As(err, &refusal) || refusal.Quarantined != 3 || refusal.Unknown != 0 {
			t.Errorf("three in quarantine, one of them slow: %v", err)
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
				flushed := make(chan struct{})
				c.jammed.Store(&flushed)
				go func() {
					last.Flush() // once the script is over
					c.jammed.Store(nil)
					close(flushed)
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
		if acquires != 2 {
			t.Errorf("%d requests for a grant", acquires)
		}
		if !errors.Is(err, engine.ErrMarker) {
			t.Errorf("%v, want %v", err, engine.ErrMarker)
		}
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
		if !errors.Is(err, node.ErrMaxLease) || !errors.As(err, &typed) || !typed.Permanent() {
			t.Errorf("%v, want node.ErrMaxLease, for good", err)
		}
	})
}

func identify(t *testing.T, l *Locker, i int) string {
	t.Helper()
	id, err := inside.Of(l.core.Nodes[i]).Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}
