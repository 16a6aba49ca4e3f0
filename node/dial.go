package node

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// newPool returns the pool of a node that was opened by URL. It bounds every dial, read and write
// by the timeout, and the size of replies.
func newPool(e endpoint, o options) *redis.Pool {
	dialer := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		return dial(ctx, e, o.tls)
	}
	dialOptions := []redis.DialOption{
		redis.DialContextFunc(dialer),
		redis.DialReadTimeout(o.timeout),
		redis.DialWriteTimeout(o.timeout),
		redis.DialUsername(e.username),
		redis.DialPassword(e.password),
		redis.DialDatabase(e.database),
	}
	return &redis.Pool{
		MaxIdle:     o.conns,
		IdleTimeout: time.Minute,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, e.network, e.address, dialOptions...)
		},
	}
}

// dial makes the TLS handshake itself because redigo's ignores the context.
func dial(ctx context.Context, e endpoint, config *tls.Config) (net.Conn, error) {
	raw, err := (&net.Dialer{KeepAlive: time.Minute}).DialContext(ctx, e.network, e.address)
	if err != nil {
		return nil, err
	}
	if !e.tls {
		return forRedigo(raw), nil
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName = e.host
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return forRedigo(secure), nil
}

// forRedigo makes a connection safe from large replies, and its deadlines cheap.
func forRedigo(c net.Conn) net.Conn { return redisconn.LimitReplies(redisconn.DeferDeadlines(c)) }
