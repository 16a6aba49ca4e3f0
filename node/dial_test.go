package node

import (
	"context"
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// redigo panics ("send on closed channel") when a pool that waits was closed and the context is done. Which of two ways it
// takes is chance, so it is asked until both have surely been taken.
func TestGetConnOutlivesAClosedPool(t *testing.T) {
	pool := &redis.Pool{Wait: true, MaxActive: 1, Dial: func() (redis.Conn, error) { return nil, errors.New("no") }}
	if c, err := getConn(t.Context(), pool); err == nil {
		t.Fatalf("a connection of a pool that cannot dial: %v", c)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	panicked := 0
	for range 200 {
		c, err := getConn(ctx, pool)
		if err == nil && c.Err() == nil {
			t.Fatal("a closed pool gives a connection that works")
		}
		if errors.Is(err, ErrClosed) {
			panicked++
		}
	}
	if panicked == 0 {
		t.Error("redigo does not panic any more: getConn need not recover")
	}
}
