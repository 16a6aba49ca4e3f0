package peers

import (
	"context"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/quorum"
)

// Redislock is bsm/redislock over go-redis: a lock on one master.
type Redislock struct {
	client *redis.Client
	locker *redislock.Client
}

// OpenRedislock returns bsm/redislock over one master.
func OpenRedislock(url string) (*Redislock, error) {
	client, err := openGoRedis(url)
	if err != nil {
		return nil, err
	}
	return &Redislock{client, redislock.New(client)}, nil
}

// Name returns the module's name.
func (r *Redislock) Name() string { return "bsm/redislock" }

// Pair implements [Peer].
func (r *Redislock) Pair(ctx context.Context, name string) error {
	lock, err := r.locker.Obtain(ctx, name, quorum.DefaultLease, nil)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

// Close implements [Peer].
func (r *Redislock) Close() error { return r.client.Close() }
