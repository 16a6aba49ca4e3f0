//go:build unix

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// store is a resource on a redis-server, which no lock is on.
type store struct {
	url  string
	conn redis.Conn
}

func onRedis(t *testing.T) *store {
	t.Helper()
	url := testkit.Real(t, 1).URLs()[0]
	conn := testkit.Opened(redis.DialURL(url))(t)
	return &store{url, conn}
}

func (s *store) account(*testing.T, int) {}

func (s *store) session(t *testing.T, step func(string)) session {
	t.Helper()
	conn := testkit.Got(redis.DialURL(s.url))(t)
	return &redisSession{Conn: conn, step: step}
}

func (s *store) state(t *testing.T, account int) (int, []write) {
	t.Helper()
	balance := testkit.Got(balanceOf(s.conn, account))(t)
	lines := testkit.Got(redis.Strings(s.conn.Do("LRANGE", logKey(account), 0, -1)))(t)
	var log []write
	for _, line := range lines {
		var w write
		testkit.Got(fmt.Sscan(line, &w.Token, &w.Before, &w.After))(t)
		log = append(log, w)
	}
	return balance, log
}

func balanceOf(conn redis.Conn, account int) (int, error) {
	balance, err := redis.Int(conn.Do("GET", balanceKey(account)))
	if errors.Is(err, redis.ErrNil) {
		return opening, nil
	}
	return balance, err
}

func balanceKey(account int) string { return fmt.Sprintf("balance:%d", account) }
func logKey(account int) string     { return fmt.Sprintf("log:%d", account) }
func tokenKey(account int) string   { return fmt.Sprintf("token:%d", account) }

// redisSession calls step before each command that waits for a reply.
type redisSession struct {
	redis.Conn
	step      func(string)
	unwatched bool // WATCH is left out
}

func (s *redisSession) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	s.step(command)
	if command == "WATCH" && s.unwatched {
		return "OK", nil
	}
	return redis.DoContext(s.Conn, ctx, command, args...)
}

func (s *redisSession) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(s.Conn, ctx)
}

func (s *redisSession) close() { s.Conn.Close() }

func (s *redisSession) work(ctx context.Context, account int, token uint64, by order, amounts ...int) ([]write, error) {
	s.unwatched = by == unwatched
	if by == stampFirst || by == stampOnlyRead || by == unwatched {
		s.step("begin")
		if _, err := fence.StampKey(ctx, s, tokenKey(account), token); err != nil {
			return nil, err
		}
	}
	s.step("read")
	balance, err := balanceOf(s.Conn, account)
	if err != nil {
		return nil, err
	}
	var done []write
	for _, amount := range amounts {
		w := write{token, balance, balance + amount}
		s.step("begin")
		if err := s.write(ctx, account, w, by); err != nil {
			return done, err
		}
		done = append(done, w)
		balance = w.After
	}
	return done, nil
}

func (s *redisSession) write(ctx context.Context, account int, w write, by order) error {
	commands := []fence.Command{
		{Name: "SET", Args: []any{balanceKey(account), w.After}},
		{Name: "RPUSH", Args: []any{logKey(account), fmt.Sprint(w.Token, w.Before, w.After)}},
	}
	if by != unguarded && by != stampOnlyRead {
		_, err := fence.StampKey(ctx, s, tokenKey(account), w.Token, commands...)
		return err
	}
	s.step("write")
	if err := s.Conn.Send("MULTI"); err != nil {
		return err
	}
	for _, c := range commands {
		if err := s.Conn.Send(c.Name, c.Args...); err != nil {
			return err
		}
	}
	_, err := s.Conn.Do("EXEC")
	return err
}
