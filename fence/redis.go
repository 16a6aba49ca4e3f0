package fence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Command is a Redis command: Command{Name: "SET", Args: []any{"balance:42", 110}}.
type Command struct {
	Name string
	Args []any
}

// StampKey records in a string key, on the Redis server that holds the resource, that the resource has seen the token,
// if it has seen none that is greater, and carries out the commands in the same step. Without commands it only stamps,
// as a holder does before it reads. Reads need no step of their own: they may follow on any connection to that server.
// It returns the replies to the commands, in order.
//
// When the key has seen a greater token, the error is an [*Error], and no command is carried out. The error wraps
// [ErrInvalid] for an empty key, a token outside 1 to 2^53−1, and a key that holds no token. A command that fails by
// itself (WRONGTYPE) does not undo the others: its error is among the replies, and StampKey's error wraps the first
// of them. When the connection fails, or ctx ends, the commands may have been carried out, or not, and the connection
// is dead.
//
// The key guards for as long as the server keeps it: give it no time to live, evict nothing, and see docs/fencing.md
// for servers that restart or fail over. On a Redis Cluster the key must be in the slot of what the commands write.
//
// conn must be a connection of redigo, from a pool or not, with no pending reply and no WATCH. One goroutine at a
// time may use it.
func StampKey(ctx context.Context, conn redis.Conn, key string, token uint64, commands ...Command) ([]any, error) {
	if err := check(key, token); err != nil {
		return nil, err
	}
	for {
		replies, done, err := stampOnce(ctx, conn, key, token, commands)
		switch {
		case errors.Is(err, ErrFenced):
			return nil, err
		case err != nil:
			return replies, fmt.Errorf("fence: stamp %s: %w", key, err)
		case done:
			return replies, nil
		}
		// Another stamp came between, which can only happen as often as holders change.
	}
}

// stampOnce is not done when the key changed between the comparison and the step: the server has
// carried out nothing then.
func stampOnce(
	ctx context.Context, conn redis.Conn, key string, token uint64, commands []Command,
) (replies []any, done bool, err error) {
	if _, err := do(ctx, conn, "WATCH", key); err != nil {
		return nil, false, err
	}
	seen, err := seenBy(ctx, conn, key)
	if err == nil {
		err = compare(key, token, seen)
	}
	if err != nil {
		// A failure of UNWATCH ends the connection, and the watch with it.
		_, _ = do(ctx, conn, "UNWATCH")
		return nil, false, err
	}
	if err := send(conn, key, token, seen, commands); err != nil {
		return nil, false, err
	}
	reply, err := do(ctx, conn, "EXEC")
	if err != nil {
		return nil, false, err
	}
	if reply == nil {
		return nil, false, nil
	}
	replies, err = redis.Values(reply, nil)
	if err == nil && len(replies) != 1+len(commands) { // of a proxy, perhaps
		err = fmt.Errorf("%d replies to EXEC of %d commands", len(replies), 1+len(commands))
	}
	if err != nil {
		return nil, false, err
	}
	replies = replies[1:] // without the stamp's
	for i, one := range replies {
		if failed, ok := one.(redis.Error); ok && err == nil {
			err = fmt.Errorf("%s: %w", commands[i].Name, failed)
		}
	}
	return replies, true, err
}

// do is [redis.DoContext], except that nothing uses the connection once it has returned. Redigo's
// returns when ctx ends and leaves behind a goroutine that may still write, while the caller unwatches
// the key, or closes the connection.
func do(ctx context.Context, conn redis.Conn, command string, args ...any) (any, error) {
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		kill(conn)
	})
	reply, err := redis.DoContext(conn, context.WithoutCancel(ctx), command, args...)
	if !stop() {
		<-killed
		if err != nil {
			err = ctx.Err()
		}
	}
	return reply, err
}

// kill makes a connection dead, also while another goroutine uses it. Redigo has no call for that, but
// closes the socket when a context's deadline has passed.
func kill(conn redis.Conn) {
	expired, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	_, _ = redis.ReceiveContext(conn, expired)
}

// seenBy returns 0 for a key that does not exist.
func seenBy(ctx context.Context, conn redis.Conn, key string) (uint64, error) {
	text, err := redis.String(do(ctx, conn, "GET", key))
	if errors.Is(err, redis.ErrNil) {
		return 0, nil
	}
	if failed, ok := errors.AsType[redis.Error](err); ok && strings.HasPrefix(failed.Error(), "WRONGTYPE") {
		return 0, fmt.Errorf("%w: the key holds no token: %w", ErrInvalid, failed)
	}
	if err != nil {
		return 0, err
	}
	seen, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: the key holds %q, not a token", ErrInvalid, text)
	}
	return seen, nil
}

// send queues the step. An equal token leaves the key alone, so that the flows of one holder do not
// send each other around again: GET stands for the reply that is dropped.
func send(conn redis.Conn, key string, token, seen uint64, commands []Command) error {
	if err := conn.Send("MULTI"); err != nil {
		return err
	}
	var err error
	if token > seen {
		err = conn.Send("SET", key, token)
	} else {
		err = conn.Send("GET", key)
	}
	for _, c := range commands {
		if err == nil {
			err = conn.Send(c.Name, c.Args...)
		}
	}
	return err
}
