package gocronquorumlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

func TestNewRefuses(t *testing.T) {
	const ms = time.Millisecond
	inBubble(t, func(c *cluster) { // so the max lease is 600 ms
		p, closed := c.process(0), c.process(1)
		closed.Close()
		for words, test := range map[string]struct {
			locker       *quorum.Locker
			period, skew time.Duration
			opts         []Option
			want         error
		}{
			"the locker is nil":                                         {nil, time.Minute, time.Second, nil, quorum.ErrInvalid},
			"option 1 is nil":                                           {p, time.Minute, time.Second, []Option{nil}, quorum.ErrInvalid},
			"period 0s is not positive":                                 {p, 0, time.Second, nil, quorum.ErrInvalid},
			"skew 0s is not positive":                                   {p, time.Minute, 0, nil, quorum.ErrInvalid},
			"min hold 100ms is not above the skew 100ms":                {p, 300 * ms, 100 * ms, nil, quorum.ErrInvalid},
			"wait -1ms is negative":                                     {p, 300 * ms, ms, []Option{WithWait(-ms)}, quorum.ErrInvalid},
			"not above the skew 40ms and the wait 60ms":                 {p, 300 * ms, 40 * ms, []Option{WithWait(60 * ms)}, quorum.ErrInvalid},
			"twice the min hold 130ms is not below":                     {p, 300 * ms, 40 * ms, []Option{WithMinHold(130 * ms)}, quorum.ErrInvalid},
			"twice the min hold 2562047h47m16.854775807s":               {p, 300 * ms, ms, []Option{WithMinHold(1<<63 - 1)}, quorum.ErrInvalid},
			"lease 30s is not from 10ms to 600ms, the nodes' max lease": {p, time.Hour, time.Second, nil, quorum.ErrInvalid},
			"lease 2ms is not from 10ms to 600ms, the nodes' max lease": {p, 6 * ms, ms / 2, nil, quorum.ErrInvalid},
			"drift factor":                                              {p.With(quorum.WithDrift(2)), 300 * ms, ms, nil, quorum.ErrInvalid},
			"closed":                                                    {closed, 300 * ms, ms, nil, quorum.ErrClosed},
		} {
			made, err := New(test.locker, test.period, test.skew, test.opts...)
			testkit.Check(c, made == nil && errors.Is(err, test.want) && strings.Contains(err.Error(), words),
				"%v, %v; want %q that wraps %q", made, err, words, test.want)
		}
		for _, opts := range [][]Option{nil, {WithWait(59 * ms)}, {WithMinHold(129 * ms)}} {
			testkit.Is(c, testkit.ErrorOf(New(p, 300*ms, 40*ms, opts...)), nil, "New")
		}
	})
}

// Held has the lock of a job for as long as the job runs, and no longer. The lock's context is the job's.
func TestHeld(t *testing.T) {
	inBubble(t, func(c *cluster) {
		l := c.locker(c.process(0), 50*time.Millisecond)
		c.until(firstTick, 0)
		_, ok := l.Held("job")
		testkit.Check(c, !ok, "held before it runs")
		ctx, cancel := context.WithCancel(c.Context())
		first := testkit.Got(l.Lock(ctx, "job"))(c)
		lock, ok := l.Held("job")
		_, other := l.Held("other")
		testkit.Require(c, ok && !other && lock.Valid() && lock.Token() != 0, "held: %v, another: %v", ok, other)
		cancel()
		synctest.Wait()
		testkit.Check(c, lock.Context().Err() != nil, "the lock's context goes on after the job's")
		testkit.Must(c, first.Unlock(ctx)) // as gocron does
		_, ok = l.Held("job")
		testkit.Check(c, !ok, "held after its run")
		testkit.Is(c, testkit.ErrorOf(l.Lock(c.Context(), "job")), quorum.ErrHeld, "during the min hold")
	})
}

// A scheduler whose jobs have ever new names keeps none that has ended long ago.
func TestEndedRunsAreForgotten(t *testing.T) {
	inBubble(t, func(c *cluster) {
		l := c.locker(c.process(0), 50*time.Millisecond)
		c.until(firstTick, 0)
		for i := range 20 {
			run := testkit.Got(l.Lock(c.Context(), fmt.Sprint("job ", i)))(c)
			testkit.Must(c, run.Unlock(c.Context()))
			time.Sleep(c.period)
		}
		testkit.Check(c, len(l.runs) <= 2, "%d jobs are remembered", len(l.runs))
	})
}

// A run that goes on after its lock was lost gets no token of the next one, which the resource would accept. While
// both go on, neither gets a lock: gocron does not say which of them asks.
func TestHeldBesideTheNextRun(t *testing.T) {
	for what, firstEnds := range map[string]bool{"the first ends": true, "the next ends": false} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				p := c.process(0)
				l := c.locker(p, 50*time.Millisecond)
				c.until(firstTick, 0)
				first := testkit.Got(l.Lock(c.Context(), "job"))(c)
				testkit.Must(c, operator.ForceUnlock(c.Context(), p, "job"))
				next := testkit.Got(l.Lock(c.Context(), "job"))(c)
				lock, ok := l.Held("job")
				testkit.Check(c, !ok && lock == nil, "with two runs at once, Held returns %v, %v", lock, ok)
				ends, goesOn := next, first
				if firstEnds {
					ends, goesOn = first, next
				}
				if err := ends.Unlock(c.Context()); err != nil {
					testkit.Is(c, err, quorum.ErrLost, "Unlock of the first run")
				}
				lock, ok = l.Held("job")
				testkit.Check(c, ok && lock == goesOn.(*jobLock).lock, "the run that goes on has another's lock, or none")
				if err := goesOn.Unlock(c.Context()); err != nil {
					testkit.Is(c, err, quorum.ErrLost, "Unlock of the first run")
				}
				_, ok = l.Held("job")
				testkit.Check(c, !ok, "held after both runs")
			})
		})
	}
}

// gocron's RunNow returns nil whatever the lock says. Within the min hold of a run of this process, the log and the
// error say why nothing runs.
func TestRunNowWithinTheMinHold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		l, other := c.locker(c.process(0), 50*time.Millisecond), c.locker(c.process(1), 50*time.Millisecond)
		c.until(firstTick, 0)
		var log strings.Builder
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		defer slog.SetDefault(before)
		run := testkit.Got(l.Lock(c.Context(), "job"))(c)
		testkit.Must(c, run.Unlock(c.Context()))
		_, err := other.Lock(c.Context(), "job") // as at each tick
		testkit.Check(c, errors.Is(err, quorum.ErrHeld) && log.Len() == 0, "another process: %v; logged: %s", err, &log)
		_, err = l.Lock(c.Context(), "job")
		testkit.Check(c, errors.Is(err, quorum.ErrHeld) && strings.Contains(err.Error(), "within the min hold of this process's last run") &&
			strings.Count(log.String(), "level=WARN") == 1 && strings.Contains(log.String(), "job=job"),
			"%v; logged: %s", err, &log)
	})
}
