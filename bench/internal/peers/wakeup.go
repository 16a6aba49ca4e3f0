package peers

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// WakeUp measures, count times, the least that a handoff takes: from a PUBLISH on the first master
// until its subscriber has the message and has fanned out a script that does nothing.
func WakeUp(ctx context.Context, urls []string, count int) (took []time.Duration, err error) {
	const channel = "bench:wake-up"
	floor, err := OpenNoOp(urls)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.Close()) }()
	publisher, err := redis.DialURLContext(ctx, urls[0], redis.DialReadTimeout(timeout))
	if err != nil {
		return nil, err
	}
	defer publisher.Close()
	conn, err := redis.DialURLContext(ctx, urls[0], redis.DialReadTimeout(timeout))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	subscriber := redis.PubSubConn{Conn: conn}
	if err := subscriber.Subscribe(channel); err != nil {
		return nil, err
	}
	if err, failed := subscriber.Receive().(error); failed {
		return nil, err
	}
	for i := range count + 1 {
		began := time.Now()
		if err := publisher.Send("PUBLISH", channel, ""); err != nil {
			return nil, err
		}
		if err := publisher.Flush(); err != nil {
			return nil, err
		}
		if err, failed := subscriber.Receive().(error); failed {
			return nil, err
		}
		call, _ := floor.calls(floor.list, channel)
		if err := floor.fanOut(ctx, channel, call); err != nil {
			return nil, err
		}
		if i > 0 { // the first one makes connections
			took = append(took, time.Since(began))
		}
		if _, err := publisher.Receive(); err != nil {
			return nil, err
		}
	}
	return took, nil
}
