package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/integration/contender"
)

// counting is a semaphore that is unsound: each master counts up to n holders, and who is counted by a
// majority holds. Its holds have no slots; each gets a number of its own.
type counting struct {
	pools  []*redis.Pool
	plan   contender.Plan
	number atomic.Int64
}

// count admits an owner to the sorted set of holders, by the ends of their leases.
var count = redis.NewScript(1, `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`)

func openCounting(p contender.Plan) (contender.Locker, error) {
	c := &counting{plan: p}
	for _, url := range p.URLs {
		timeouts := []redis.DialOption{redis.DialConnectTimeout(p.Timeout), redis.DialReadTimeout(p.Timeout), redis.DialWriteTimeout(p.Timeout)}
		c.pools = append(c.pools, &redis.Pool{MaxIdle: 2, Dial: func() (redis.Conn, error) { return redis.DialURL(url, timeouts...) }})
	}
	return c, nil
}

// each runs do on every master, and returns how many returned true.
func (c *counting) each(do func(redis.Conn) bool) int {
	var asking sync.WaitGroup
	var yes atomic.Int64
	for _, pool := range c.pools {
		asking.Go(func() {
			conn := pool.Get()
			defer conn.Close()
			if do(conn) {
				yes.Add(1)
			}
		})
	}
	asking.Wait()
	return int(yes.Load())
}

func (c *counting) Lock(ctx context.Context, name string) (contender.Lock, error) {
	for {
		number := c.number.Add(1)
		h := &counted{of: c, name: name, number: int(number)<<8 | c.plan.Client&0xff, until: time.Now().Add(c.plan.Lease)}
		votes := c.each(func(conn redis.Conn) bool {
			granted, err := redis.Bool(count.Do(conn, name, h.Owner(), c.plan.Slots, c.plan.Lease.Milliseconds()))
			return granted && err == nil
		})
		if votes > len(c.pools)/2 && h.Valid() {
			h.ctx, h.cancel = context.WithDeadline(ctx, h.until)
			return h, nil
		}
		h.leave()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5*time.Millisecond + rand.N(20*time.Millisecond)):
		}
	}
}

func (c *counting) Close() error {
	for _, pool := range c.pools {
		pool.Close()
	}
	return nil
}

// counted is a holder that a majority has counted.
type counted struct {
	of     *counting
	name   string
	number int
	until  time.Time
	ctx    context.Context
	cancel context.CancelFunc
}

func (h *counted) leave() bool {
	return h.of.each(func(conn redis.Conn) bool {
		_, err := conn.Do("ZREM", h.name, h.Owner())
		return err == nil
	}) > len(h.of.pools)/2
}

func (h *counted) Slots() []int             { return []int{h.number} }
func (h *counted) Owner() string            { return fmt.Sprintf("counted:%d", h.number) }
func (h *counted) Token() uint64            { return uint64(h.number) }
func (h *counted) Deadline() time.Time      { return h.until }
func (h *counted) Context() context.Context { return h.ctx }
func (h *counted) Valid() bool              { return time.Now().Before(h.until) }

func (h *counted) Unlock(context.Context) error {
	defer h.cancel()
	if !h.leave() {
		return fmt.Errorf("own: %s: too few masters answered", h.Owner())
	}
	return nil
}
