package peers

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

// maxConns is for each master: more than 256 callers need, with the stragglers that a fast answer
// leaves behind, so that no connection is made or closed during a measurement. A frozen master
// holds no more than that.
const maxConns = 1024

// Redsync is go-redsync over redigo.
type Redsync struct {
	sync  *redsync.Redsync
	pools []*redis.Pool
	opts  []redsync.Option
}

// OpenRedsync returns redsync over the masters. Each mutex has the given options on top of its
// defaults.
func OpenRedsync(urls []string, opts ...redsync.Option) *Redsync {
	r := &Redsync{opts: opts}
	var pools []syncredis.Pool
	for _, url := range urls {
		pool := &redis.Pool{
			MaxIdle: maxConns, MaxActive: maxConns,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialURLContext(ctx, url,
					redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
			},
		}
		r.pools = append(r.pools, pool)
		pools = append(pools, redigo.NewPool(pool))
	}
	r.sync = redsync.New(pools...)
	return r
}

// OpenFastRedsync returns redsync with its fastest settings without contention: one try, and an
// answer as soon as a majority has answered.
func OpenFastRedsync(urls []string) *Redsync {
	return OpenRedsync(urls, redsync.WithTries(1), redsync.WithFailFast(true))
}

// Name returns the module's name.
func (r *Redsync) Name() string { return "redsync" }

// Mutex returns a new mutex of redsync.
func (r *Redsync) Mutex(name string, opts ...redsync.Option) *redsync.Mutex {
	return r.sync.NewMutex(name, append(r.opts[:len(r.opts):len(r.opts)], opts...)...)
}

// Pair implements [Peer].
func (r *Redsync) Pair(ctx context.Context, name string) error {
	mutex := r.sync.NewMutex(name, r.opts...)
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	unlocked, err := mutex.UnlockContext(ctx)
	if unlocked {
		return nil // the errors of a minority
	}
	return errors.Join(errors.New("redsync: not unlocked by a majority"), err)
}

// Close implements [Peer].
func (r *Redsync) Close() error {
	var errs []error
	for _, pool := range r.pools {
		errs = append(errs, pool.Close())
	}
	return errors.Join(errs...)
}
