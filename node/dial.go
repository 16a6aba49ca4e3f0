package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// newPool returns the pool of a node that was opened by URL, which keeps no connection. It bounds the making of one, every read
// and write, and the size of replies.
func (s *server) newPool() *redis.Pool {
	return &redis.Pool{
		DialContext: func(wanted context.Context) (redis.Conn, error) {
			ctx, cancel := context.WithTimeout(wanted, redisconn.ConnectTimeout(s.opts.timeout))
			defer cancel()
			to, err := s.dialer(ctx, wanted)
			switch {
			case err != nil:
				return nil, err
			case s.sentinels != nil:
				return s.dialNamed(ctx, to)
			}
			return to(ctx, s.endpoint)
		},
	}
}

// dial connects to a server that may be a master.
type dial func(context.Context, endpoint) (redis.Conn, error)

// dialer asks for the credentials of the connections that the dial makes. The cancellation of wanted closes them.
func (s *server) dialer(ctx, wanted context.Context) (dial, error) {
	user, password, err := s.askCredentials(ctx)
	return func(ctx context.Context, to endpoint) (redis.Conn, error) {
		raw, err := s.opts.dial(ctx, to)
		if err != nil {
			return nil, err
		}
		redisconn.Dialed(wanted, raw) // not ctx, which ends while the connection is used
		c := redis.NewConn(raw, s.opts.timeout, s.opts.timeout)
		if err := logIn(ctx, c, user, password, s.database, s.opts); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}, err
}

// logIn authenticates, selects the database, and has CLIENT LIST show whose connection it is, in one
// round trip: networks may be slow.
func logIn(ctx context.Context, c redis.Conn, user, password string, database int, o options) error {
	var commands [][]any
	if database != 0 {
		commands = append(commands, []any{"SELECT", database})
	}
	commands = authenticated(user, password, append(commands, []any{"CLIENT", "SETNAME", o.clientName}))
	_, errs := redisconn.RoundTrip(ctx, c, o.timeout, commands...)
	last := len(errs) - 1
	if err := cmp.Or(errs[:last]...); err != nil || !redisconn.IsServerError(errs[last]) {
		return cmp.Or(err, errs[last])
	}
	// The user may not be allowed to set a name, which does not matter. Or the server says why it hangs
	// up: it has too many clients, or is in protected mode.
	if _, broken := redisconn.RoundTrip(ctx, c, o.timeout, []any{"PING"}); redisconn.IsBroken(broken[0]) {
		return errs[last]
	}
	return nil
}

// authenticated returns the commands behind AUTH, if there is a password.
func authenticated(user, password string, commands [][]any) [][]any {
	switch {
	case password == "":
		return commands
	case user == "":
		return slices.Insert(commands, 0, []any{"AUTH", password})
	}
	return slices.Insert(commands, 0, []any{"AUTH", user, password})
}

// askCredentials returns the credentials of one connection.
func (s *server) askCredentials(ctx context.Context) (user, password string, err error) {
	if s.opts.credentials == nil {
		return s.username, s.password, nil
	}
	user, password, err = s.opts.credentials(ctx)
	switch {
	case errors.Is(cmp.Or(err, ctx.Err()), context.DeadlineExceeded): // wrapped, it would say that the node timed out
		return "", "", fmt.Errorf("asking for the credentials: no reply in time (%v)", cmp.Or(err, ctx.Err()))
	case err != nil:
		return "", "", fmt.Errorf("asking for the credentials: %w", err)
	case password == "" && user != "":
		return "", "", errors.New("asking for the credentials: got a user name without a password")
	}
	return user, password, nil
}

// at returns the endpoint with another address, and with TLS its host as the server's name unless the URL gives one.
func (e endpoint) at(address string) endpoint {
	e.address = address
	if e.host == "" {
		e.host, _, _ = net.SplitHostPort(address)
	}
	return e
}

// dial makes the TLS handshake itself because redigo's ignores the context.
func (o *options) dial(ctx context.Context, e endpoint) (net.Conn, error) {
	raw, err := o.dialer(ctx, e.network, e.address)
	switch {
	case err != nil:
		return nil, err
	case raw == nil:
		return nil, errors.New("dialing: got neither a connection nor an error")
	case !e.tls:
		return redisconn.RefuseStrays(raw), nil
	}
	config := cmp.Or(o.tls, &tls.Config{MinVersion: tls.VersionTLS12}).Clone()
	config.ServerName = cmp.Or(config.ServerName, e.host)
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return redisconn.RefuseStrays(secure), nil
}
