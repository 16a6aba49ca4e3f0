package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// AskSentinels implements [inside.Server]. Sentinels of two deployments, which may call their masters by one name, would
// let a client hold at each of these.
func (s *server) AskSentinels(ctx context.Context) (notes []string, two error) {
	if s.sentinels == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.timeout)
	defer cancel()
	sentinels := s.sentinels.addresses
	masters, runIDs, errs := make([]string, len(sentinels)), make([]string, len(sentinels)), make([]error, len(sentinels))
	var asking sync.WaitGroup
	for i, sentinel := range sentinels {
		asking.Go(func() { masters[i], runIDs[i], errs[i] = s.locate(ctx, sentinel) })
	}
	asking.Wait()
	known := -1 // the first that names a master
	for i, err := range errs {
		switch {
		case err != nil:
			notes = append(notes, fmt.Sprintf("Sentinel %s: %v", sentinels[i], err))
		case known < 0:
			known = i
		case runIDs[i] != runIDs[known]: // which passes if the other is the old one of a failover
			two = passes{fmt.Errorf("%w: two masters: Sentinel %s names %s, and Sentinel %s names %s: Sentinels of two deployments, "+
				"or the master of before a failover?", ErrInvalid, sentinels[known], masters[known], sentinels[i], masters[i])}
		}
	}
	return notes, two
}

// locate asks a sentinel for the master's address, and the server there for its run id.
func (s *server) locate(ctx context.Context, sentinel string) (address, runID string, err error) {
	c, err := redisconn.Get(ctx, func(ctx context.Context) (redis.Conn, error) {
		to, err := s.dialer(ctx, ctx)
		if err != nil {
			return nil, err
		}
		if address, err = s.askSentinel(ctx, sentinel, redisconn.ConnectTimeout(s.opts.timeout)); err != nil {
			return nil, err
		}
		c, _, err := s.onMaster(ctx, address, to, false)
		return c, err
	})
	if err == nil {
		defer kill(c)
		replies, errs := redisconn.RoundTrip(ctx, c, s.opts.timeout, []any{"INFO", "server"})
		runID, err = redisconn.ReadInfo(replies[0])["run_id"], errs[0]
	}
	if err != nil && address != "" {
		err = fmt.Errorf("names %s: %w", address, late(ctx, err))
	}
	return address, runID, err
}
