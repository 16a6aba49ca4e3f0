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

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A locker, a lock and Stats print something meaningful.
func TestValuesPrintAsValues(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		testkit.Equal(t, fmt.Sprint(l), "locker over master0, master1, master2", "it prints as")
		held := c.lock(l, "a b")
		want := fmt.Sprintf("lock \"a b\", token %d, owner %s", held.Token(), held.Owner())
		testkit.Equal(t, fmt.Sprint(held), want, "it is")
		var logged bytes.Buffer
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("held", "lock", held, "reader", c.got(l.RWLock("b").RLock(t.Context())))
		attrs := fmt.Sprintf(`"lock":{"names":["a b"],"token":%d,"owner":"%s"},"reader":{"names":["b"],"shared":true,"token":`, held.Token(), held.Owner())
		testkit.Check(t, strings.Contains(logged.String(), attrs), "%s, want %s", &logged, attrs)
		stats, err := json.Marshal(l.Stats())
		testkit.Check(t, err == nil && bytes.Contains(stats, []byte(`"acquired":2`)) && bytes.Contains(stats, []byte(`"State":"up"`)), "%s, %v", stats, err)
	})
}

// Do says once that its lock was lost, even if fn returns the cause of its context. It adds it to the error of work that does not
// say so.
func TestDoTellsALossOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, own := c.process(), errors.New("the work's own error")
		for _, says := range []func(cause error) error{
			func(cause error) error { return cause },
			func(cause error) error { return errors.Join(own, cause) },
			func(error) error { return own },
		} {
			err := l.Do(t.Context(), func(ctx context.Context, _ *Lock) error {
				crashAll(c)
				<-ctx.Done()
				return says(context.Cause(ctx))
			}, "a")
			wantError(t, err, ErrLost)
			testkit.Equal(t, errors.Is(err, own), errors.Is(says(nil), own), err)
			testkit.Equal(t, strings.Count(err.Error(), ": lost"), 1, err)
			testkit.Check(t, says(nil) != own || !strings.Contains(err.Error(), "\n"), "%v", err)
			startAll(c, 5*time.Second)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
	})
}

func TestRules(t *testing.T) {
	for nodes := -1; nodes <= 9; nodes++ {
		need, err := All(nodes)
		if ok := nodes >= 1; ok != (err == nil) || ok && need != nodes || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("All(%d) = %d, %v", nodes, need, err)
		}
		need, err = Majority(nodes)
		ok := nodes >= 1 && nodes%2 == 1
		testkit.Check(t, ok == (err == nil) && (!ok || need == nodes/2+1) && (ok || errors.Is(err, ErrInvalid)),
			"Majority(%d) = %d, %v", nodes, need, err)
	}
}

// A rule of the program's own is refused with ErrInvalid and a reason, whatever it returns.
func TestRulesThatAreRefused(t *testing.T) {
	for want, rule := range map[string]Rule{
		"0 of 0 nodes": func(int) (int, error) { return 0, nil },
		"1 of 0 nodes": func(int) (int, error) { return 1, nil },
		"odd":          func(int) (int, error) { return 0, errors.New("odd") },
	} {
		_, err := New(nil, rule)
		testkit.Check(t, errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "%"), "%s: %v", want, err)
	}
}
