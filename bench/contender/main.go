// Command contender contends for go-redsync's lock under the schedules of integration/chaos. It
// uses the lock as redsync's documentation does, with a goroutine that extends the lock every third
// of its expiry: redsync leaves extending to the caller. redsync has no fencing tokens. The clock
// replaces the token, so the register still refuses a write that comes out of order.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/integration/contender"
)

func main() { os.Exit(contender.Main(open)) }

type locker struct {
	*redsync.Redsync
	plan  contender.Plan
	pools []*redis.Pool
}

func open(p contender.Plan) (contender.Locker, error) {
	if p.Kind != "redsync" {
		return nil, fmt.Errorf("contender: no kind %q", p.Kind)
	}
	l := &locker{plan: p}
	var pools []redsyncredis.Pool
	for _, url := range p.URLs {
		pool := &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, url, redis.DialConnectTimeout(p.Timeout),
				redis.DialReadTimeout(p.Timeout), redis.DialWriteTimeout(p.Timeout))
		}}
		l.pools = append(l.pools, pool)
		pools = append(pools, redigo.NewPool(pool))
	}
	l.Redsync = redsync.New(pools...)
	return l, nil
}

func (l *locker) Close() error {
	for _, pool := range l.pools {
		pool.Close()
	}
	return nil
}

// Lock retries until ctx is done. redsync's own delay between attempts is 50 to 250 ms.
func (l *locker) Lock(ctx context.Context, name string) (contender.Lock, error) {
	mutex := l.NewMutex(name, redsync.WithExpiry(l.plan.Lease), redsync.WithTries(1<<30))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	h := &held{mutex: mutex, expiry: l.plan.Lease, token: uint64(time.Now().UnixMicro()), until: mutex.Until()}
	h.ctx, h.end = context.WithCancel(ctx)
	h.extending.Go(h.extend)
	return h, nil
}

// held is a lock that extends itself until an extension fails for good.
type held struct {
	mutex     *redsync.Mutex
	expiry    time.Duration
	token     uint64
	ctx       context.Context
	end       context.CancelFunc
	extending sync.WaitGroup

	mu    sync.Mutex
	until time.Time
}

func (h *held) extend() {
	defer h.end()
	for {
		again := time.NewTimer(time.Until(h.Deadline()) - 2*h.expiry/3)
		select {
		case <-h.ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
		ctx, cancel := context.WithDeadline(h.ctx, h.Deadline())
		ok, err := h.mutex.ExtendContext(ctx)
		// Perhaps too few masters answered this once: the next attempts follow until the deadline.
		if !ok || err != nil {
			select {
			case <-ctx.Done():
				cancel()
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		cancel()
		h.mu.Lock()
		if ok && err == nil {
			h.until = h.mutex.Until()
		}
		h.mu.Unlock()
	}
}

func (h *held) Owner() string            { return h.mutex.Value() }
func (h *held) Token() uint64            { return h.token }
func (h *held) Context() context.Context { return h.ctx }
func (h *held) Valid() bool              { return time.Now().Before(h.Deadline()) }

func (h *held) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *held) Unlock(ctx context.Context) error {
	h.end()
	h.extending.Wait()
	ok, err := h.mutex.UnlockContext(ctx)
	if err == nil && !ok {
		err = fmt.Errorf("contender: not unlocked by a majority")
	}
	return err
}
