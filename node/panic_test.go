package node_test

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// quitter is a log that ends the goroutine that tells it something, as t.FailNow does.
type quitter struct {
	slog.Handler
	told chan string
}

func (q quitter) WithAttrs([]slog.Attr) slog.Handler { return q }
func (q quitter) Handle(_ context.Context, r slog.Record) error {
	q.told <- r.Message
	runtime.Goexit()
	return nil
}

// A log that ends the node's goroutine is told the next line all the same, and Close does not wait for it.
func TestLogThatEndsItsGoroutine(t *testing.T) {
	const timeout = 10 * time.Second
	log := quitter{slog.Default().Handler(), make(chan string, 10)}
	inBubble(t, func(c net.Conn) { c.Close() }, func(t *testing.T, _ *node.Node, x *exchange) {
		n := over(t, x.pool, node.WithTimeout(timeout), node.WithLogger(slog.New(log)))
		n.Identify(t.Context())
		<-log.told
		synctest.Wait()
		began := time.Now()
		must(t, n.Close())
		if took := time.Since(began); took >= timeout {
			t.Errorf("Close waited %v for a log that is gone", took)
		}
	})
}

// crier panics when it is told that the subscription stands.
type crier struct{ listener }

func (*crier) Listening() { panic("listening") }

// A listener that panics while it is added has not been.
func TestListenerThatPanics(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, n *node.Node, x *exchange) {
		calm := &listener{}
		stop := n.Listen("a", calm)
		synctest.Wait()
		calm.wants(t, "the first", "listening")
		loud := &crier{}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			n.Listen("a", loud)
		}()
		stop()
		time.Sleep(2 * linger)
		synctest.Wait()
		loud.wants(t, "who panicked")
		if open := x.pool.ActiveCount(); open != 0 {
			t.Errorf("%d connections are left for one who does not listen", open)
		}
	})
}
