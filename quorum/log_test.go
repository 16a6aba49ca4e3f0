package quorum

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// logLines counts the lines that are logged.
type logLines struct{ child.Printed }

func (l *logLines) count(words string) int { return strings.Count(l.String(), words) }

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// setDefault makes a log the default logger until the test ends.
func (l *logLines) setDefault(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(l.logger())
	t.Cleanup(func() { slog.SetDefault(before) })
}

func crash(masters []*fakeredis.Master, keep fakeredis.Memory) {
	for _, m := range masters {
		m.Crash(keep)
	}
}

func flush(masters ...*fakeredis.Master) {
	for _, m := range masters {
		m.Flush()
	}
}

func crashAll(c *cluster) { crash(c.Masters, fakeredis.Nothing) }

func startAll(c *cluster, wait time.Duration) {
	for _, m := range c.Masters {
		m.Start()
	}
	time.Sleep(wait) // until probes find that the nodes answer again
}

// Without a logger of its own a Locker uses the default one, even if that is set later. What no
// error reports is logged: masters that are dead, a lock that is lost.
func TestTheDefaultLogger(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		quiet := c.process(WithLogger(slog.New(slog.DiscardHandler)))
		log := &logLines{}
		log.setDefault(t)
		c.lock(quiet, "b")
		held := c.lock(l, "a")
		crashAll(c)
		<-held.Context().Done()
		synctest.Wait()
		testkit.Equal(t, log.count("quorumlock: lock lost"), 1, "lines about the loss")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, errorOf(l.Lock(ctx, "a")), ErrUnavailable)
		testkit.Equal(t, log.count(`level=WARN msg="quorumlock: waiting for nodes"`), 1, "lines about the waiting")
		startAll(c, 5*time.Second)
	})
}
