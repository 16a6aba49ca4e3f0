package peers

import (
	"context"
	"errors"
	"io"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredisclient "github.com/redis/go-redis/v9"
)

// maxConns is for each master: more than 1,024 callers need, with the stragglers that a fast answer
// leaves behind, so that no connection is made or closed during a measurement. A frozen master
// holds no more than that. Two such clients of five masters stay below 20,000 open files.
const maxConns = 1536

// Redsync is go-redsync.
type Redsync struct {
	name  string
	sync  *redsync.Redsync
	pools []io.Closer
	opts  []redsync.Option
}

// fast are redsync's fastest settings without contention: one try, and an answer as soon as a
// majority has answered.
var fast = []redsync.Option{redsync.WithTries(1), redsync.WithFailFast(true)}

// OpenRedsync returns redsync over redigo. Each mutex has the given options on top of its defaults.
func OpenRedsync(urls []string, opts ...redsync.Option) *Redsync {
	r := &Redsync{name: "redsync", opts: opts}
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

// OpenFastRedsync returns redsync over redigo with its fastest settings without contention.
func OpenFastRedsync(urls []string) *Redsync { return OpenRedsync(urls, fast...) }

// OpenGoRedsync returns redsync over go-redis with its fastest settings without contention.
func OpenGoRedsync(urls []string) (*Redsync, error) {
	r := &Redsync{name: "redsync over go-redis", opts: fast}
	var pools []syncredis.Pool
	for _, url := range urls {
		client, err := openGoRedis(url)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.pools = append(r.pools, client)
		pools = append(pools, goredis.NewPool(client))
	}
	r.sync = redsync.New(pools...)
	return r, nil
}

func openGoRedis(url string) (*goredisclient.Client, error) {
	options, err := goredisclient.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.PoolSize = maxConns
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = timeout, timeout, timeout
	return goredisclient.NewClient(options), nil
}

// Name returns the module's name, and that of the client if it is not redigo.
func (r *Redsync) Name() string { return r.name }

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
