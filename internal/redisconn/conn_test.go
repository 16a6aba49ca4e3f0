package redisconn

import (
	"context"
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// redigo panics ("send on closed channel") when a pool that waits was closed and the context is done. Which of two ways it
// takes is chance, so it is asked until both have surely been taken.
func TestGetOutlivesAClosedPool(t *testing.T) {
	pool := &redis.Pool{Wait: true, MaxActive: 1, Dial: func() (redis.Conn, error) { return nil, errors.New("no") }}
	if c, err := Get(t.Context(), pool); err == nil {
		t.Fatalf("a connection of a pool that cannot dial: %v", c)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	panicked := 0
	for range 200 {
		_, err := Get(ctx, pool)
		if err == nil {
			t.Fatal("a closed pool gives a connection that works")
		}
		if errors.Is(err, ErrPool) {
			panicked++
		}
	}
	if panicked == 0 {
		t.Error("redigo does not panic any more: Get need not recover")
	}
}
