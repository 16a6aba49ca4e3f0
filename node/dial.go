package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

type (
	// credentialsFunc is the function of [WithCredentials].
	credentialsFunc func(ctx context.Context) (user, password string, err error)
	// dialFunc is the function of [WithDialer].
	dialFunc func(ctx context.Context, network, address string) (net.Conn, error)
)

// newPool returns the pool of a node that was opened by URL. It bounds every dial, read and write
// by the timeout, and the size of replies.
func newPool(e endpoint, o options) *redis.Pool {
	if o.dialer == nil {
		o.dialer = (&net.Dialer{KeepAlive: time.Minute}).DialContext
	}
	if o.credentials == nil {
		o.credentials = func(context.Context) (user, password string, err error) { return e.username, e.password, nil }
	}
	return &redis.Pool{
		MaxIdle:     o.conns,
		IdleTimeout: time.Minute,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.timeout)
			defer cancel()
			user, password, err := o.credentials.ask(ctx)
			if err != nil {
				return nil, err
			}
			c, err := redis.DialContext(ctx, e.network, e.address,
				redis.DialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
					return dial(ctx, e, o.dialer, o.tls)
				}),
				redis.DialReadTimeout(o.timeout),
				redis.DialWriteTimeout(o.timeout),
				redis.DialUsername(user),
				redis.DialPassword(password),
				redis.DialDatabase(e.database),
			)
			if err != nil {
				return nil, err
			}
			return setName(ctx, c, o)
		},
	}
}

// setName has CLIENT LIST show whose connection it is. An error reply does not matter: the user may
// not be allowed to set a name.
func setName(ctx context.Context, c redis.Conn, o options) (redis.Conn, error) {
	err := redisconn.Send(c, o.timeout, func() error { return c.Send("CLIENT", "SETNAME", o.clientName) })
	if err == nil {
		_, err = redisconn.ReceiveBy(ctx, c, o.timeout)
	}
	if c.Err() != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ask returns the credentials of one connection.
func (f credentialsFunc) ask(ctx context.Context) (user, password string, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("asking for the credentials: panic: %v", x)
		}
	}()
	user, password, err = f(ctx)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("asking for the credentials: %w", err)
	case ctx.Err() != nil:
		return "", "", fmt.Errorf("asking for the credentials: %w", ctx.Err())
	case password == "" && user != "":
		return "", "", errors.New("asking for the credentials: got a user name without a password")
	}
	return user, password, nil
}

// dial makes the TLS handshake itself because redigo's ignores the context.
func dial(ctx context.Context, e endpoint, dialer dialFunc, config *tls.Config) (net.Conn, error) {
	raw, err := dialer.dial(ctx, e)
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

func (f dialFunc) dial(ctx context.Context, e endpoint) (raw net.Conn, err error) {
	defer func() {
		if x := recover(); x != nil {
			raw, err = nil, fmt.Errorf("dialing: panic: %v", x)
		}
	}()
	raw, err = f(ctx, e.network, e.address)
	if err == nil && raw == nil {
		err = errors.New("dialing: got neither a connection nor an error")
	}
	return raw, err
}

// forRedigo makes a connection safe from large replies, and its deadlines cheap.
func forRedigo(c net.Conn) net.Conn { return redisconn.LimitReplies(redisconn.DeferDeadlines(c)) }
