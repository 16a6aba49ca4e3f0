package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net/url"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// noRollback is redlock whose rollback uses the caller's context, as if a failed attempt were
// undone with the context of the attempt: after the end of that context no release is sent, and the
// engine sees a reply as if one was. For one flow only.
type noRollback struct {
	*quorum.Locker
	nodes   []*node.Node
	calling atomic.Pointer[context.Context] // of the call of Lock that is under way or has failed
}

func openNoRollback(p contender.Plan, opts []node.Option) (contender.Locker, error) {
	m := &noRollback{}
	for _, text := range p.URLs {
		at, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		pool := &redis.Pool{MaxIdle: 2, DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := redis.DialURLContext(ctx, text, redis.DialConnectTimeout(p.Timeout),
				redis.DialReadTimeout(p.Timeout), redis.DialWriteTimeout(p.Timeout))
			if err != nil {
				return nil, err
			}
			return noRollbackConn{conn.(redis.ConnWithTimeout), m}, nil
		}}
		n, err := node.New(pool, append(opts, node.WithName(at.Query().Get("name")))...)
		if err != nil {
			return nil, err
		}
		m.nodes = append(m.nodes, n)
	}
	var err error
	m.Locker, err = redlock.New(m.nodes, quorum.WithLease(p.Lease))
	return m, err
}

func (m *noRollback) Lock(ctx context.Context, name string) (contender.Lock, error) {
	m.calling.Store(&ctx)
	lock, err := m.Locker.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	m.calling.Store(nil)
	return lock, nil
}

func (m *noRollback) Close() error {
	err := m.Locker.Close()
	for _, n := range m.nodes {
		n.Close()
	}
	return err
}

type noRollbackConn struct {
	redis.ConnWithTimeout
	of *noRollback
}

// releaseSHAs are the hashes of the scripts that release.
var releaseSHAs = func() map[any]bool {
	hashes := map[any]bool{}
	for _, s := range scripts.All() {
		if s.Name() == "release" || s.Name() == "releases" {
			sum := sha1.Sum([]byte(s.Source()))
			hashes[hex.EncodeToString(sum[:])] = true
		}
	}
	return hashes
}()

func (c noRollbackConn) Send(command string, args ...any) error {
	ctx := c.of.calling.Load()
	if command == "EVALSHA" && releaseSHAs[args[0]] && ctx != nil && (*ctx).Err() != nil {
		return c.ConnWithTimeout.Send("EVAL", "return 1", 0)
	}
	return c.ConnWithTimeout.Send(command, args...)
}
