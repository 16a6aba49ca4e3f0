package peers

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/quorumlock/quorumlock/quorum"
)

// Etcd is the mutex of etcd's client, over servers of its own. All mutexes of a process share one session: its
// lease is kept alive once for all. That is also their owner, so a process must not lock one name twice at once.
type Etcd struct {
	client  *clientv3.Client
	session *concurrency.Session
}

// sessionBound is for how long a busy machine may take to make the session.
const sessionBound = 10 * time.Second

// OpenEtcd returns etcd's mutex over the members of one cluster, with the library's lease.
func OpenEtcd(endpoints []string) (*Etcd, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: sessionBound, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sessionBound)
	defer cancel()
	lease, err := client.Grant(ctx, int64(quorum.DefaultLease/time.Second))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	session, err := concurrency.NewSession(client, concurrency.WithLease(lease.ID))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &Etcd{client, session}, nil
}

// Name returns the server's name.
func (e *Etcd) Name() string { return "etcd" }

// Mutex returns a new mutex of the session.
func (e *Etcd) Mutex(name string) *concurrency.Mutex { return concurrency.NewMutex(e.session, name) }

// Pair implements [Peer].
func (e *Etcd) Pair(ctx context.Context, name string) error {
	mutex := e.Mutex(name)
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	return mutex.Unlock(ctx)
}

// Close implements [Peer]. It revokes the lease.
func (e *Etcd) Close() error { return errors.Join(e.session.Close(), e.client.Close()) }
