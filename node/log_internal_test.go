package node

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// logging returns a node's log with its lines, and the states that the hook is told.
func logging(t *testing.T) (l *stateLog, lines *strings.Builder, states *[]string) {
	lines, states = new(strings.Builder), new([]string)
	logger := slog.New(slog.NewTextHandler(lines, nil))
	l = &stateLog{logger: func() *slog.Logger { return logger }, name: func() string { return "a" },
		warnedAt: map[string]time.Time{},
		changed:  func(e StateEvent) { *states = append(*states, e.State) }}
	t.Cleanup(l.close)
	return l, lines, states
}

// A reply that comes while the node is closed sets no timer, which would keep the node in memory for a quarantine.
func TestNoTimerIsLeftOfAClosedLog(t *testing.T) {
	for what, before := range map[string]time.Duration{"none was set": 0, "one was stopped": time.Hour} {
		l, _, _ := logging(t)
		l.Quarantined(pipeline.Quarantine{Left: before, Asked: time.Now(), Came: time.Now()})
		l.close()
		l.Quarantined(pipeline.Quarantine{Left: 2 * time.Hour, Asked: time.Now(), Came: time.Now()})
		testkit.Check(t, l.ends == nil || !l.ends.Stop(), "%s: a timer is set", what)
	}
}

// Connections read the master's quarantine, of 10 s, and hand their readings on late or out of order. What an older one
// has found is no news, and none lengthens the quarantine or makes a second one of it.
func TestReadingsOfAQuarantine(t *testing.T) {
	const s, up, quarantined = time.Second, inside.Up, inside.Quarantined
	type reading struct{ asked, left, came, handed time.Duration }
	for what, c := range map[string]struct {
		readings []reading
		after    string // the state then
		over     time.Duration
		logged   int      // quarantines
		states   []string // that the hook is told
	}{
		"handed on late":                       {[]reading{{0, 10 * s, 0, 4 * s}}, quarantined, 10 * s, 1, []string{quarantined}},
		"each reply is as quick":               {[]reading{{0, 10 * s, 0, 0}, {2 * s, 8 * s, 2 * s, 2 * s}}, quarantined, 10 * s, 1, []string{quarantined}},
		"a quicker reply knows the end better": {[]reading{{0, 10 * s, 3 * s, 3 * s}, {4 * s, 6 * s, 4 * s, 4 * s}}, quarantined, 10 * s, 1, []string{quarantined}},
		"a reply that comes when it is over":   {[]reading{{0, 10 * s, 0, 0}, {5 * s, 5 * s, 11 * s, 11 * s}}, up, 11 * s, 1, []string{quarantined, up}},
		"another began":                        {[]reading{{0, 10 * s, 0, 0}, {5 * s, 10 * s, 5 * s, 5 * s}}, quarantined, 15 * s, 2, []string{quarantined}},
		"an older reading of a blank master":   {[]reading{{2 * s, 8 * s, 2 * s, 2 * s}, {s, 0, 3 * s, 3 * s}}, quarantined, 10 * s, 1, []string{quarantined}},
		"an older reading, now it is admitted": {[]reading{{0, 10 * s, 0, 0}, {2 * s, 0, 2 * s, 2 * s}, {s, 9 * s, 3 * s, 3 * s}}, up, 3 * s, 1, []string{quarantined, up}},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			l, lines, states := logging(t)
			began := time.Now()
			for _, r := range c.readings {
				time.Sleep(r.handed - time.Since(began))
				l.Quarantined(pipeline.Quarantine{Left: r.left, Asked: began.Add(r.asked), Came: began.Add(r.came)})
			}
			testkit.Equal(t, l.state(), c.after, "the state")
			if c.after == quarantined {
				time.Sleep(c.over - time.Since(began) - time.Nanosecond)
				testkit.Equal(t, l.state(), quarantined, "the state before its end")
				time.Sleep(time.Nanosecond)
			}
			testkit.Equal(t, l.state(), up, "the state at its end")
			synctest.Wait()
			testkit.Equal(t, strings.Join(*states, " "), strings.Join(c.states, " "), "the hook is told")
			testkit.Equal(t, strings.Count(lines.String(), "in quarantine"), c.logged, lines.String())
		})
	}
}

// A master that flaps fills no log.
func TestAFlappingMasterIsLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines, _ := logging(t)
		for range 25 { // half a minute
			l.Down(errors.New("no route"))
			testkit.Pass(600 * time.Millisecond)
			l.Up()
			testkit.Pass(600 * time.Millisecond)
		}
		got := strings.Count(lines.String(), "\n")
		testkit.Check(t, got >= 4 && got <= 8, "%d lines: %s", got, lines)
		l.Down(errors.New("no route"))
		for range 20 { // probes
			testkit.Pass(time.Second)
			l.StillDown(errors.New("no route"))
		}
		synctest.Wait()
		all := strings.Split(strings.TrimSpace(lines.String()), "\n")
		testkit.Check(t, strings.Contains(all[len(all)-1], "node down"), "the last line is not that it is down: %s", lines)
	})
}

// The reason why a node is down may change with every probe. Not every one is logged.
func TestReasonsAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines, _ := logging(t)
		logged := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			testkit.Equal(t, strings.Count(lines.String(), what), want, "lines with "+what+" of "+lines.String())
		}
		l.Down(redis.Error("ERR unknown command `AUTH`"))
		for range 60 {
			testkit.Pass(time.Second)
			l.StillDown(redis.Error("ERR unknown command `AUTH`"))
		}
		logged("node refused, which will not pass by itself", 1)
		for i := range 60 {
			l.StillDown(fmt.Errorf("it has no room, says probe %d", i))
			testkit.Pass(time.Second)
		}
		logged("node down", 6)
		for _, i := range []int{0, 10, 20, 30, 40, 50} { // at least 10 s after the last one logged
			logged(fmt.Sprintf("no room, says probe %d\"", i), 1)
		}
		l.StillDown(redis.Error("WRONGPASS invalid username-password pair"))
		logged("node refused, which will not pass by itself", 2)
	})
}

// A reason that does not pass by itself is logged at once behind one that does, and the other way round. Of each kind one is
// logged in ten seconds.
func TestAReasonOfTheOtherKindIsLoggedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines, _ := logging(t)
		passes, lasts := errors.New("no route"), redis.Error("WRONGPASS invalid username-password pair")
		logged := func(down, refused int) {
			t.Helper()
			synctest.Wait()
			testkit.Equal(t, strings.Count(lines.String(), "node down"), down, "reasons that pass in "+lines.String())
			testkit.Equal(t, strings.Count(lines.String(), "node refused"), refused, "reasons that do not in "+lines.String())
		}
		l.Down(passes)
		logged(1, 0)
		testkit.Pass(time.Second)
		l.StillDown(lasts)
		logged(1, 1)
		for range 9 { // until 10 s after the first one
			testkit.Pass(time.Second)
			l.StillDown(passes)
			l.StillDown(lasts)
		}
		logged(2, 1)
		testkit.Pass(time.Second)
		l.StillDown(lasts)
		logged(2, 2)
	})
}

// Releases that a server refuses may be many: of each ten seconds one is logged.
func TestRefusedReleasesAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines, _ := logging(t)
		for range 20 {
			l.ReleaseRefused(scripts.Release(testkit.Names("k"), scripts.OwnerOf("o:1"), 0), errors.New("NOPERM"))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		testkit.Equal(t, strings.Count(lines.String(), "release refused"), 2, lines.String())
	})
}

// A master that refuses the client's list, or is being marked for another one, is logged. One that is blank is about to be marked.
func TestMastersThatDoNotAcceptTheClient(t *testing.T) {
	list, other, process := scripts.NewList("a", "b"), scripts.NewList("a", "c"), scripts.Process{Run: "r", MaxLease: time.Minute, Member: "a"}
	for what, c := range map[string]struct {
		change func(*scripts.Marker)
		logged int
	}{
		"another list":                 {func(m *scripts.Marker) { m.Members = other }, 1},
		"another member":               {func(m *scripts.Marker) { m.Member = "b" }, 1},
		"claimed for another list":     {func(m *scripts.Marker) { m.Members, m.Claimed = other, true }, 1},
		"claimed":                      {func(m *scripts.Marker) { m.Claimed = true }, 0},
		"blank, and had the list":      {func(m *scripts.Marker) { m.Run = "before" }, 0},
		"blank, and had another":       {func(m *scripts.Marker) { m.Run, m.Members = "before", other }, 0},
		"admitted, and has no members": {func(m *scripts.Marker) { m.Members = scripts.NewList() }, 0},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			l, lines, _ := logging(t)
			marker := scripts.Marker{Process: process, Generation: 1, Members: list, Next: scripts.NewList()}
			c.change(&marker)
			l.NotAccepted(list, scripts.Seen{Process: process, Marker: marker.String()})
			synctest.Wait()
			testkit.Equal(t, strings.Count(lines.String(), "does not accept this client"), c.logged, lines.String())
		})
	}
}

func TestWithHooksAdds(t *testing.T) {
	testkit.AddsHooks(t, func(all ...Hooks) Hooks {
		var o options
		for _, h := range all {
			WithHooks(h)(&o)
		}
		return o.hooks
	})
}
