package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// logging returns a node's log with its lines, and the states that the hook is told.
func logging(t *testing.T) (l *stateLog, lines *strings.Builder, states *[]string) {
	lines, states = new(strings.Builder), new([]string)
	logger := slog.New(slog.NewTextHandler(lines, nil))
	l = &stateLog{logger: func() *slog.Logger { return logger }, name: func() string { return "a" }, warnedAt: map[string]time.Time{},
		changed: func(e StateEvent) { *states = append(*states, e.State) }}
	t.Cleanup(l.close)
	return l, lines, states
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
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
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

func TestWithHooksAdds(t *testing.T) {
	testkit.AddsHooks(t, func(all ...Hooks) Hooks {
		var o options
		for _, h := range all {
			WithHooks(h)(&o)
		}
		return o.hooks
	})
}
