package quorum

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/scripts"
)

// The marker of a master is gone again each time that it was marked: the attempt counts the master as
// failed, and sends it no more than two requests for a grant.
func TestAMarkerThatChangesEachTime(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		last, acquires := c.Masters[2], 0
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

// Two replicas start at the same time on new masters: one marks what the other has looked at. Each node's log and
// state, and Stats, say that it grants nothing as long as that is so, and that it grants from then on.
func TestAFirstStartOfTwoReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		log.setDefault(t)
		w, all := world.New(t, 3), make([]*Locker, 2)
		var starting sync.WaitGroup
		for i := range all {
			nodes := w.NewProcess().Nodes()
			starting.Go(func() { all[i], _ = New(nodes, Majority, withClock(w.Clock)) })
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
			testkit.Equal(t, log.count("level=WARN msg=\"quorumlock: node in quarantine"), began, when+": lines that quarantines began")
			testkit.Equal(t, log.count("its quarantine is over"), ended, when+": lines that they are over")
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
		c.Masters[0].Crash(fakeredis.Everything)
		l.TryLock(t.Context(), "a")
		testkit.Equal(t, l.Stats().Nodes[0].State, inside.Down, "a master that did not accept it, and is down")
		c.Masters[0].Start()
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

// Markers that spell the names in another way accept a client, over live connections and over new ones, and stay as they
// are. A master that forgets gets the list as the others spell it.
func TestMarkersThatSpellNamesOtherwise(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		spelled := []string{"Redis-A.:6379", "[::FFFF:10.0.0.1]:6379", "REDIS.example.:06379"}
		process := func() *Locker {
			var nodes []*node.Node
			p := c.NewProcess()
			for i, name := range spelled {
				n := testkit.Got(p.Node(i, append(c.nodeOptions(), node.WithName(scripts.Canonical(name)))...))(c.t)
				nodes = append(nodes, n)
			}
			return c.locker(nodes)
		}
		l := process()
		c.unlock(c.lock(l, "a"))
		var texts []string
		for i, m := range c.Masters {
			look := inside.Of(l.engine.Nodes[i]).Pipe("").Do(t.Context(), scripts.Look())
			c.must(look.Err)
			marker := scripts.Marker{Process: scripts.Process{Run: look.RunID, MaxLease: node.DefaultMaxLease, Member: spelled[i]},
				Generation: 1, Members: scripts.NewList(spelled...), Next: scripts.NewList()}
			texts = append(texts, marker.String())
			m.Set(scripts.MarkerKey, texts[i])
		}
		text := func(i int) string { return c.ask(l, i, scripts.Look()).Look.Marker }
		for _, l := range []*Locker{l, process()} {
			lock := c.lock(l, "a")
			time.Sleep(3 * DefaultLease)
			testkit.Require(t, lock.Valid(), "%v", lock.Err())
			c.unlock(lock)
			for i := range c.Masters {
				testkit.Equal(t, text(i), texts[i], "the marker")
			}
		}
		flush(c.Masters[2])
		lock := c.lock(l, "a")
		time.Sleep(3 * DefaultLease)
		c.unlock(lock)
		testkit.Check(t, strings.Contains(text(2), strings.Split(texts[0], "\n")[2]), "the master that has forgotten has the marker %q, another %q",
			text(2), texts[0])
	})
}
