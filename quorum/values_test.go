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
		if !errors.Is(err, ErrLost) || !errors.Is(err, own) {
			t.Errorf("%v", err)
		}
		startAll(c)
	})
}
