package quorum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a program prints of a lock, of Stats and of an Outcome says something.
func TestValuesPrintAsValues(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a b")
		want := fmt.Sprintf("lock \"a b\", token %d, owner %s", held.Token(), held.Owner())
		if got := fmt.Sprint(held); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		var logged bytes.Buffer
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("held", "lock", held)
		attrs := fmt.Sprintf(`"lock":{"names":["a b"],"token":%d,"owner":"%s"}`, held.Token(), held.Owner())
		if !strings.Contains(logged.String(), attrs) {
			t.Errorf("%s, want %s", &logged, attrs)
		}
		stats, err := json.Marshal(l.Stats())
		if err != nil || !bytes.Contains(stats, []byte(`"acquired":1`)) || !bytes.Contains(stats, []byte(`"State":"up"`)) {
			t.Errorf("%s, %v", stats, err)
		}
	})
}

// A state says who holds the name, and what each node has of it.
func TestStatesPrintAsSentences(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithFixedLease(20 * time.Second))
		says := func(name string, want ...string) {
			t.Helper()
			state, _ := l.Inspect(t.Context(), name)
			text := state.String()
			for _, part := range want {
				if !strings.Contains(text, part) {
					t.Errorf("%s\nwant %q", text, part)
				}
			}
		}
		says("a", `"a" has no holder on enough nodes, token at most 0; node master0: free, token counter 0; node master1: free`)
		held := c.lockKnown(l, "a")
		by := fmt.Sprintf("%v as %q", l.Identity(), held.Owner())
		says("a", fmt.Sprintf(`"a" is held by %s, 20s left, token at most %d; `, by, held.Token()),
			fmt.Sprintf("; node master2: %s, level 1, 20s left, token counter %d", by, held.Token()))
		c.unlock(held)
		slot := c.takes(l.Semaphore("s", 1))
		synctest.Wait()
		states, err := l.Semaphore("s", 1).Inspect(t.Context())
		if err != nil || !strings.HasPrefix(states[0].String(), `"s" slot 0 is held by `) {
			t.Errorf("%v, %v", states[0], err)
		}
		c.unlock(slot)

		reader, writers := c.read(l), make(chan lockResult, 1)
		synctest.Wait()
		says("a", `"a" is held by 1 reader, 20s left, token at most `, "; node master1: 1 reader, 20s left, token counter ")
		startWaiter(t.Context(), c.process(), 0, writers, "a")
		says("a", " left, a writer waits, token at most ", " left, a writer keeps new readers back for ")
		c.unlock(reader)
		c.unlock(c.next(writers, shortly).lock)
		crashAll(c)
		says("a", `"a" has no holder on enough nodes`, "; node master0: ")
		startAll(c)
	})
}

// A locker that is printed names its masters, not its pointers.
func TestALockerIsPrinted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		if got := fmt.Sprint(c.process()); got != "locker over master0, master1, master2" {
			t.Error(got)
		}
	})
}

// Do says once that its lock was lost, also where fn returns the cause of its context.
func TestDoTellsALossOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		own := errors.New("the work's own error")
		for _, add := range []error{nil, own} {
			err := l.Do(t.Context(), func(ctx context.Context, _ *Lock) error {
				crashAll(c)
				<-ctx.Done()
				return errors.Join(add, context.Cause(ctx))
			}, "a")
			if !errors.Is(err, ErrLost) || strings.Count(err.Error(), ": lost") != 1 || add != nil && !errors.Is(err, own) {
				t.Errorf("%v", err)
			}
			startAll(c)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		// A work that does not say so is told of it.
		err := l.Do(t.Context(), func(ctx context.Context, _ *Lock) error {
			crashAll(c)
			<-ctx.Done()
			return own
		}, "a")
		if !errors.Is(err, ErrLost) || !errors.Is(err, own) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		startAll(c)
	})
}
