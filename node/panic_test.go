package node_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

// quitter is a handler that ends the goroutine that calls it, as t.FailNow does.
type quitter struct {
	slog.Handler
	messages chan string
}

func (q quitter) WithAttrs([]slog.Attr) slog.Handler { return q }
func (q quitter) Handle(_ context.Context, r slog.Record) error {
	q.messages <- r.Message
	runtime.Goexit()
	return nil
}

// A handler that ends the node's goroutine gets the next line all the same, and does not delay
// Close.
func TestLogThatEndsItsGoroutine(t *testing.T) {
	const timeout = 10 * time.Second
	log := quitter{slog.NewTextHandler(io.Discard, nil), make(chan string, 10)}
	synctest.Test(t, func(t *testing.T) {
		srv := testkit.NewServer(t, timeout, func(c net.Conn) { c.Close() })
		n := openPool(t, srv.Pool, node.WithTimeout(timeout), node.WithLogger(slog.New(log)))
		inside.Of(n).Identify(t.Context())
		<-log.messages
		synctest.Wait()
		began := time.Now()
		testkit.Must(t, n.Close())
		if took := time.Since(began); took >= timeout {
			t.Errorf("Close waited %v for a log that is gone", took)
		}
	})
}
