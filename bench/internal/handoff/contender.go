package handoff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// contended is a peer with its defaults for waiting, as one process uses it.
type contended interface {
	// acquire waits until the lock is acquired or ctx is done.
	acquire(ctx context.Context, name string) (release func(context.Context) error, err error)
	attempts() int // up to the last that succeeded
	Close() error
}

func open(peer string, urls []string) (contended, error) {
	switch peer {
	case "quorumlock":
		library, err := peers.OpenLibrary(urls)
		return &waiting{Library: library}, err
	case "redsync":
		return &retrying{Redsync: peers.OpenRedsync(urls)}, nil
	case Etcd:
		etcd, err := peers.OpenEtcd(urls)
		return &queueing{Etcd: etcd}, err
	default:
		return nil, fmt.Errorf("handoff: no peer %q", peer)
	}
}

// waiting is the library.
type waiting struct {
	*peers.Library
	last atomic.Int64
}

func (w *waiting) acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	lock, err := w.Locker().Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	// A locker numbers the owners of its attempts.
	_, text, _ := strings.Cut(lock.Owner(), ":")
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("handoff: an owner without a number: %w", err), lock.Unlock(ctx))
	}
	for last := w.last.Load(); last < number && !w.last.CompareAndSwap(last, number); last = w.last.Load() {
	}
	return lock.Unlock, nil
}

func (w *waiting) attempts() int { return int(w.last.Load()) }

// retrying is redsync with its default delays, which it counts.
type retrying struct {
	*peers.Redsync
	tried atomic.Int64
}

func (r *retrying) acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	var delays int64
	mutex := r.Mutex(name, redsync.WithRetryDelayFunc(func(int) time.Duration {
		delays++
		return time.Duration(50+rand.IntN(200)) * time.Millisecond // redsync's own delay, which is not exported
	}))
	var err error
	// redsync gives up after 32 tries by default. A waiter calls again.
	for tries := int64(1); ; tries++ {
		if err = mutex.LockContext(ctx); err == nil {
			r.tried.Add(tries + delays)
			break
		}
		if ctx.Err() != nil {
			return nil, errors.Join(err, ctx.Err())
		}
	}
	return func(ctx context.Context) error {
		if unlocked, err := mutex.UnlockContext(ctx); !unlocked {
			return errors.Join(errors.New("handoff: redsync: not unlocked by a majority"), err)
		}
		return nil
	}, nil
}

func (r *retrying) attempts() int { return int(r.tried.Load()) }

// queueing is etcd, whose waiters stand in a queue and watch the one before them.
type queueing struct {
	*peers.Etcd
	acquired atomic.Int64
}

func (q *queueing) acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	mutex := q.Mutex(name)
	if err := mutex.Lock(ctx); err != nil {
		return nil, err
	}
	q.acquired.Add(1)
	return mutex.Unlock, nil
}

// attempts is one for each acquisition: a queue has no others.
func (q *queueing) attempts() int { return int(q.acquired.Load()) }
