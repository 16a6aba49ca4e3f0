package peers

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumlock/quorumlock/quorum"
)

// Rueidislock is rueidislock: a lock on a majority of several keys of one master.
type Rueidislock struct{ locker rueidislock.Locker }

// OpenRueidislock returns rueidislock with a majority of an odd number of keys on one master.
func OpenRueidislock(url string, keys int) (*Rueidislock, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.Dialer.Timeout, options.ConnWriteTimeout = timeout, timeout
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: options,
		KeyMajority:  int32(majority(keys)),
		KeyValidity:  quorum.DefaultLease,
		TryNextAfter: timeout, // how long it waits for each key; the default of 20 ms is short for 1,024 callers
		// The setting that its documentation advises for Redis 7.
		NoLoopTracking: true,
	})
	if err != nil {
		return nil, err
	}
	return &Rueidislock{locker}, nil
}

// Name returns the package's name.
func (r *Rueidislock) Name() string { return "rueidislock" }

// Pair implements [Peer].
func (r *Rueidislock) Pair(ctx context.Context, name string) error {
	_, release, err := r.locker.TryWithContext(ctx, name)
	if err != nil {
		return err
	}
	release() // returns when every key is deleted
	return nil
}

// Close implements [Peer].
func (r *Rueidislock) Close() error {
	r.locker.Close()
	return nil
}
